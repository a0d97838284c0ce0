# SPDX-License-Identifier: Apache-2.0
"""Writes smollm2_vocabulary.txt, the vocabulary of SmolLM2-135M-Instruct, from its GGUF file.

usage: make_smollm2_vocabulary.py MODEL.gguf OUT.txt        (needs the PyPI package gguf)

Format, lines of UTF-8 text: `control N` and N control tokens (ids 0...), `bytes N` and N single-byte tokens in the byte
alphabet (the next ids), `merges N` and N pairs of ids `left right`. Merge i makes the next id; its spelling is that of left
followed by that of right.
"""
import sys

from gguf import GGUFReader


def main() -> None:
    fields = GGUFReader(sys.argv[1]).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    first_merge = len(tokens) - len(merges)
    controls = sum(1 for t in types if t == 3)
    assert all(t == 3 for t in types[:controls]) and all(len(t) == 1 for t in tokens[controls:first_merge])
    id_of = {t: i for i, t in enumerate(tokens)}
    lines = [f"control {controls}", *tokens[:controls], f"bytes {first_merge - controls}", *tokens[controls:first_merge]]
    lines.append(f"merges {len(merges)}")
    for i, merge in enumerate(merges):
        left, right = merge.split(" ")
        assert tokens[first_merge + i] == left + right
        lines.append(f"{id_of[left]} {id_of[right]}")
    with open(sys.argv[2], "w", encoding="utf-8", newline="\n") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
