# SPDX-License-Identifier: Apache-2.0
"""The checks check something: every rule has rows that it accepts and rows that it rejects."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_layers  # noqa: E402
import check_sizes  # noqa: E402
import check_source  # noqa: E402
import tally  # noqa: E402
from cpp_source import strip_comments  # noqa: E402

LAYERS = [  # layer, text, part of the expected sentence or None
    ("apps", '#include "bridge/serve_request.h"', None),
    ("bridge", '#include "store/block_store.h"\n#include "front/server.h"', None),
    ("store", '#include "flow/identity.h"\n#include "base/status.h"', None),
    ("front", '#include "net/http.h"', None),
    ("base", '#include <vector>\n#include "base/status.h"', None),
    ("net", "#include <boost/asio.hpp>\n#include <openssl/ssl.h>", None),
    ("base", "#include <openssl/evp.h>\n#include <omp.h>", None),
    ("kernels", '#include "hwy/foreach_target.h"\n#include <oneapi/dnnl/dnnl.hpp>', None),
    ("kernels", '#define HWY_TARGET_INCLUDE "kernels/rope.cpp"', None),
    ("text", "#include <pcre2.h>\n#include <utf8proc.h>", None),
    ("store", "#include <sqlite3.h>", None),
    ("apps", "#include <CLI/CLI.hpp>", None),
    ("store", '// #include "handoff/frame.h"', None),
    ("store", '/*\n#include "handoff/frame.h"\n*/', None),
    ("store", '#include "handoff/frame.h"', "sideways"),
    ("front", '#include "decode/engine.h"', "sideways"),
    ("route", '#include "decode/engine.h"', "sideways"),
    ("handoff", '#include "decode/engine.h"', "sideways"),
    ("store", '#include "decode/engine.h"', "sideways"),
    ("store", '#include "bridge/serve_request.h"', "upwards"),
    ("flow", '#include "store/block_store.h"', "upwards"),
    ("model", '#include "flow/identity.h"', "upwards"),
    ("net", '#include "kernels/gemm.h"', "upwards"),
    ("base", '#  include "net/http.h"', "upwards"),
    ("kernels", '#define HWY_TARGET_INCLUDE "tensor/view.cpp"', "upwards"),
    ("store", '#include "block_store.h"', "layer/file.h"),
    ("store", '#include "../flow/identity.h"', "layer/file.h"),
    ("store", "#include <flow/identity.h>", "is ours"),
    ("front", "#include <boost/beast.hpp>", "net only"),
    ("front", "#include <openssl/ssl.h>", "base, net only"),
    ("handoff", "#include <sqlite3.h>", "store only"),
    ("model", "#include <pcre2.h>", "text only"),
    ("text", "#include <hwy/highway.h>", "kernels only"),
    ("model", "#include <oneapi/dnnl/dnnl.hpp>", "kernels only"),
    ("decode", "#include <omp.h>", "base, kernels only"),
    ("tensor", "#include <immintrin.h>", "kernels only"),
    ("tensor", "#include <arm_neon.h>", "kernels only"),
    ("handoff", "#include <xxhash.h>", "base only"),
    ("bridge", "#include <CLI/CLI.hpp>", "apps only"),
    ("extras", "", "is no layer"),
]


@pytest.mark.parametrize("layer,text,expected", LAYERS)
def test_layers(layer, text, expected):
    problems = check_layers.check_text(layer, text)
    if expected is None:
        assert problems == []
    else:
        assert len(problems) == 1 and expected in problems[0][1]


def test_layers_names_the_line():
    assert [line for line, _ in check_layers.check_text("base", '\n/* a\nb */\n#include "net/http.h"')] == [4]


HEAD = "// SPDX-License-Identifier: Apache-2.0\n"
SOURCE = [  # file, text after the licence line, part of the expected sentence or None
    ("src/base/json.cpp", "try { f(); } catch (const E& e) { }", None),
    ("src/net/http_server.cpp", "} catch (...) {", None),
    ("src/apps/serve.cpp", 'std::getenv("HOME");', None),
    ("src/store/index.cpp", "// throw, catch (x), getenv, new X, delete p", None),
    ("src/store/index.cpp", 'log("could not throw new delete getenv catch (it)");', None),
    ("src/store/index.cpp", "X(const X&) = delete;", None),
    ("src/store/index.cpp", "auto p = std::unique_ptr<X>(new X(1));", None),
    ("src/store/index.cpp", "std::unique_ptr<X> p(new X(1));", None),
    ("src/store/index.cpp", "p.reset(new X);", None),
    ("src/store/index.cpp", "int renew = new_value; renewed(newest);", None),
    ("src/store/index.cpp", "const int n = 1'000; int m = 'x' + 2'000;", None),
    ("src/store/index.h", "#pragma once", None),
    ("src/kernels/dot-inl.h", "#if defined(DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)", None),
    ("src/store/index.h", "int x;", "#pragma once"),
    ("src/kernels/dot-inl.h", "#ifndef DOT_INL_H_", "#pragma once"),
    ("src/base/json.cpp", "throw std::runtime_error(s);", "throw"),
    ("src/store/index.cpp", "} catch (const std::exception& e) {", "catch"),
    ("src/store/index.cpp", '::getenv("HOME");', "getenv"),
    ("src/base/fs.cpp", 'secure_getenv("HOME");', "getenv"),
    ("src/store/index.cpp", "X* p = new X(1);", "naked new"),
    ("src/store/index.cpp", "void* operator new(size_t bytes) {", None),
    ("src/store/index.cpp", "  void* p = ::operator new(8);", "naked new"),
    ("src/store/index.cpp", "return new (std::nothrow) char[8];", "naked new"),
    ("src/store/index.cpp", "delete p;", "naked delete"),
    ("src/store/index.cpp", "delete[] p;", "naked delete"),
    ("src/store/index.cpp", "int x;  // TO" "DO: later", "unfinished"),
]


@pytest.mark.parametrize("name,text,expected", SOURCE)
def test_source(name, text, expected):
    problems = check_source.check_cpp(name, HEAD + text)
    if expected is None:
        assert problems == []
    else:
        assert len(problems) == 1 and expected in problems[0][1]


def test_tests_may_catch():
    text = HEAD + "} catch (...) { throw; }"
    assert check_source.check_cpp("src/store/a_test.cpp", text, is_test_file=True) == []


def test_cpp_wants_its_own_comment_form():
    assert len(check_source.check_cpp("src/a/x.cpp", "# " + HEAD[3:])) == 1


@pytest.mark.parametrize("text,expected", [
    ("# SPDX-License-Identifier: Apache-2.0\nx", True),
    ("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n", True),
    ("x\n# SPDX-License-Identifier: Apache-2.0\n", False),
    ("#!/bin/sh", False),
    ("", False),
])
def test_licence(text, expected):
    assert check_source.has_licence(text) is expected


@pytest.mark.parametrize("text,expected", [
    ('a "b // c" d', 'a   d'),
    ("a // b\nc", "a  \nc"),
    ("a /* b\nc */ d", "a  \n d"),
    ('R"x(a " ) //)x" b', "  b"),
    (r'"\" // " + 1', "  + 1"),
    ("1'000 // b", "1'000  "),
])
def test_strip_comments(text, expected):
    assert strip_comments(text) == expected


FILES = [  # name, lines, test, excepted, ok
    ("src/a/x.cpp", 400, False, False, True),
    ("src/a/x.cpp", 401, False, False, False),
    ("src/a/x.h", 200, False, False, True),
    ("src/a/x.h", 201, False, False, False),
    ("src/a/x_test.cpp", 800, True, False, True),
    ("src/a/x_test.cpp", 801, True, False, False),
    ("src/a/x.cpp", 800, False, True, True),
    ("src/a/x.cpp", 801, False, True, False),
]


@pytest.mark.parametrize("name,lines,test,excepted,ok", FILES)
def test_file_size(name, lines, test, excepted, ok):
    assert (check_sizes.check_file(name, lines, test, excepted) is None) is ok


FUNCTIONS = [  # code lines, complexity, parameters, test, excepted, number of problems
    (60, 15, 6, False, False, 0),
    (61, 15, 6, False, False, 1),
    (60, 16, 6, False, False, 1),
    (60, 15, 7, False, False, 1),
    (61, 16, 7, False, False, 3),
    (120, 20, 8, True, False, 0),
    (121, 20, 8, True, False, 1),
    (120, 20, 8, False, True, 0),
    (60, 21, 6, False, True, 1),
]


@pytest.mark.parametrize("nloc,ccn,parameters,test,excepted,count", FUNCTIONS)
def test_function_size(nloc, ccn, parameters, test, excepted, count):
    sizes = {"nloc": nloc, "ccn": ccn, "parameters": parameters}
    assert len(check_sizes.check_function(sizes, test, excepted)) == count


def test_exceptions_list():
    assert check_sizes.check_exceptions({"a": "why"}, {"a"}) == []
    assert len(check_sizes.check_exceptions({"a": "why"}, set())) == 1
    six = {str(i): "why" for i in range(6)}
    assert len(check_sizes.check_exceptions(six, set(six))) == 1


JUNIT = """<testsuites><testsuite>
<testcase classname="A" name="good" status="run" result="completed"/>
<testcase classname="A" name="bad" status="run"><failure message="no"/></testcase>
<testcase classname="A" name="broken"><error message="no"/></testcase>
<testcase classname="A" name="later"><skipped/></testcase>
<testcase classname="A" name="off" status="notrun"/>
</testsuite></testsuites>"""
ONE_GOOD = '<testsuites><testcase classname="A" name="good" status="run"/></testsuites>'

TALLIES = [  # {file: content}, passed, failed, skipped
    ({}, 0, 0, 0),
    ({"check-a.rc": "0", "check-b.rc": "1"}, 1, 1, 0),
    ({"x_test.rc": "1", "x_test.xml": JUNIT}, 1, 2, 2),
    ({"x_test.rc": "0", "x_test.xml": ONE_GOOD}, 1, 0, 0),
    ({"x_test.rc": "139", "x_test.xml": ONE_GOOD}, 1, 1, 0),
    ({"x_test.rc": "0"}, 0, 1, 0),
    ({"x_test.rc": "0", "x_test.xml": "<testsuites>"}, 0, 1, 0),
    ({"pytest-e2e.rc": "5", "pytest-e2e.xml": "<testsuites/>"}, 0, 1, 0),
]


@pytest.mark.parametrize("files,passed,failed,skipped", TALLIES)
def test_tally(tmp_path, files, passed, failed, skipped):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    got = tally.tally(tmp_path)
    assert (got[0], len(got[1]), got[2]) == (passed, failed, skipped)
