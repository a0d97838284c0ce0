# SPDX-License-Identifier: Apache-2.0
"""Writes renderings.json: what Python's jinja2 makes of every template with every conversation, and of every snippet.

The environment is set up as transformers does it for chat templates. Usage: make.py (needs jinja2 3.1).
In snippets.txt one line is one template; the sign ¶ stands for a line break.
"""
import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 26, 12, 0)
BOS, EOS = "<s>", "</s>"
DATA = json.loads((HERE / "snippet_data.json").read_text())


class Generation(Extension):
    """The tag that marks an assistant's text for training; its body is rendered as a call block."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, source, **variables):
    try:
        return {"text": env.from_string(source).render(**variables)}
    except Exception as error:  # noqa: BLE001: any failure of the reference counts
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def main():
    env = environment()
    conversations = json.loads((HERE / "conversations.json").read_text())
    all_tools = conversations.pop("TOOLS")
    templates = {}
    for path in sorted(HERE.glob("*.jinja")):
        rows = templates[path.stem] = {}
        for name, talk in conversations.items():
            rows[name] = render(
                env,
                path.read_text(),
                messages=talk["messages"],
                tools=all_tools if talk.get("tools") else None,
                documents=None,
                add_generation_prompt=talk.get("add_generation_prompt", True),
                bos_token=BOS,
                eos_token=EOS,
                **talk.get("extra", {}),
            )
    snippets = []
    for line in (HERE / "snippets.txt").read_text().split("\n"):
        if line:
            source = line.replace("¶", "\n")
            snippets.append({"source": source, **render(env, source, data=DATA)})
    out = {"jinja2": jinja2.__version__, "templates": templates, "snippets": snippets}
    (HERE / "renderings.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
    ok = sum("text" in r for rows in templates.values() for r in rows.values())
    total = sum(len(rows) for rows in templates.values())
    print(f"{len(templates)} templates, {total} renderings, {ok} with text; {len(snippets)} snippets")


if __name__ == "__main__":
    main()
