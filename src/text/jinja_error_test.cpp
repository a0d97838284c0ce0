// SPDX-License-Identifier: Apache-2.0
// Malformed templates, unknown constructs and limits: the code and the line of each.
#include <gtest/gtest.h>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace isthmus::jinja {
namespace {

Result<std::string> rendered(std::string_view source, const Limits& limits = {}) {
  ASSIGN_OR_RETURN(const Block block, parse_template(source));
  return render(block, {}, limits, SystemClock::instance());
}

struct ErrorRow {
  const char* source;
  Code code;
  const char* message;  // how it starts
};

TEST(JinjaErrors, ParsingNamesTheLine) {
  const ErrorRow rows[] = {
      {"\n\n{{ x | nope }}", Code::kUnsupported, "line 3: unknown filter 'nope'"},
      {"{% if false %}\n{{ x | nope }}{% endif %}", Code::kUnsupported, "line 2: unknown filter 'nope'"},
      {"\n{{ x is nope }}", Code::kUnsupported, "line 2: unknown test 'nope'"},
      {"\n{% include 'x' %}", Code::kUnsupported, "line 2: unknown tag 'include'"},
      {"{% do x %}", Code::kUnsupported, "line 1: unknown tag 'do'"},
      {"{% for a in b recursive %}{% endfor %}", Code::kUnsupported, "line 1: recursive loops"},
      {"{{ f(*x) }}", Code::kUnsupported, "line 1: unpacked call arguments"},
      {"{% if x %}\n\n", Code::kInvalidArgument, "line 2: expected {% endif %}, got the end of the template"},
      {"{% for x in y %}\n{% endif %}", Code::kUnsupported, "line 2: unknown tag 'endif'"},
      {"a\n{{ x", Code::kInvalidArgument, "line 2: tag is not closed, expected }}"},
      {"a\n{% if x", Code::kInvalidArgument, "line 2: tag is not closed, expected %}"},
      {"{{ 'abc }}", Code::kInvalidArgument, "line 1: string is not closed"},
      {"\n{# never", Code::kInvalidArgument, "line 2: comment is not closed"},
      {"\n{% raw %}\n x", Code::kInvalidArgument, "line 2: raw block is not closed"},
      {"{{ }}", Code::kInvalidArgument, "line 1: expected an expression, got }}"},
      {"{{ 1 + }}", Code::kInvalidArgument, "line 1: expected an expression, got }}"},
      {"{{ (1 }}", Code::kInvalidArgument, "line 1: unexpected '}', expected ')'"},
      {"{{ ] }}", Code::kInvalidArgument, "line 1: unexpected ']'"},
      {"{{ 1 2 }}", Code::kInvalidArgument, "line 1: expected }}, got '2'"},
      {"{{ a ? b }}", Code::kInvalidArgument, "line 1: unexpected character '?'"},
      {"{{ € }}", Code::kInvalidArgument, "line 1: unexpected character '€'"},
      {"{{ 99999999999999999999 }}", Code::kInvalidArgument, "line 1: number '99999999999999999999'"},
      {"{{ 0xZ }}", Code::kInvalidArgument, "line 1: number '0x'"},
      {"{{ '\\x4' }}", Code::kInvalidArgument, "line 1: string escape \\x"},
      {"{{ a is b is c }}", Code::kUnsupported, "line 1: unknown test 'b'"},
      {"{{ a is defined is none }}", Code::kInvalidArgument, "line 1: tests cannot be chained"},
      {"{% break %}", Code::kInvalidArgument, "line 1: 'break' outside a loop"},
      {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", Code::kInvalidArgument,
       "line 1: 'continue' outside a loop"},
      {"{% macro m(a=1, b) %}{% endmacro %}", Code::kInvalidArgument,
       "line 1: parameter 'b' without a default"},
      {"{% set true = 1 %}", Code::kInvalidArgument, "line 1: expected a name that can be assigned"},
      {"{% set 1 = x %}", Code::kInvalidArgument, "line 1: expected a name, got '1'"},
      {"{% call x %}{% endcall %}", Code::kInvalidArgument, "line 1: expected a call"},
      {"{{ f(a=1, 2) }}", Code::kInvalidArgument, "line 1: expected a named argument"},
      {"{% %}", Code::kInvalidArgument, "line 1: expected a tag name, got %}"},
      {"{% if x %}{% else %}{% else %}{% endif %}", Code::kUnsupported, "line 1: unknown tag 'else'"},
  };
  for (const ErrorRow& row : rows) {
    const Result<Block> block = parse_template(row.source);
    ASSERT_FALSE(block.ok()) << row.source;
    EXPECT_EQ(code_name(block.status().code()), code_name(row.code)) << row.source;
    EXPECT_TRUE(block.status().message().starts_with(row.message)) << row.source << "\n"
                                                                   << block.status().message();
  }
}

TEST(JinjaErrors, RenderingNamesTheLine) {
  const ErrorRow rows[] = {
      {"a\nb\n{{ 1 + 'x' }}", Code::kInvalidArgument, "line 3: operator + takes no int and str"},
      {"{{ a.b.c }}", Code::kInvalidArgument, "line 1: 'a' is undefined"},
      {"{{ {}.b.c }}", Code::kInvalidArgument, "line 1: 'dict' object attribute 'b' is undefined"},
      {"{% macro m() %}\n{{ raise_exception('x') }}{% endmacro %}\n\n{{ m() }}", Code::kInvalidArgument,
       "line 2: x"},
      {"{{ nope() }}", Code::kInvalidArgument, "line 1: 'nope' is undefined"},
      {"{{ 9223372036854775807 + 1 }}", Code::kInvalidArgument, "line 1: integer does not fit 64 bits"},
      {"{{ 10 ** 400 }}", Code::kInvalidArgument, "line 1: integer does not fit 64 bits"},
      {"\n{{ [1] | map('nope') }}", Code::kUnsupported, "line 2: unknown filter 'nope'"},
      {"{{ [1] | select('nope') | list }}", Code::kUnsupported, "line 1: unknown test 'nope'"},
      {"{{ 'a' | replace('a') }}", Code::kInvalidArgument, "line 1: replace: expected two arguments"},
      {"{{ 'a' | trim(1, 2) }}", Code::kInvalidArgument, "line 1: trim: expected at most 1 arguments, got 2"},
      {"{{ 'a' | trim(nope=2) }}", Code::kInvalidArgument, "line 1: trim: no argument named 'nope'"},
      {"{{ 'a' | indent(1000) }}", Code::kResourceExhausted, "line 1: indent: width 1000"},
      {"{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{% endmacro %}{% set ns.m = m %}{% endfor "
       "%}"
       "{{ ns.m() }}",
       Code::kUnsupported, "line 1: macro 'm' is called outside the block that defines it"},
  };
  for (const ErrorRow& row : rows) {
    const Result<std::string> text = rendered(row.source);
    ASSERT_FALSE(text.ok()) << row.source << " gave " << *text;
    EXPECT_EQ(code_name(text.status().code()), code_name(row.code)) << row.source;
    EXPECT_TRUE(text.status().message().starts_with(row.message)) << row.source << "\n"
                                                                  << text.status().message();
  }
}

// Templates that would eat the machine; each must stop at its limit, and soon.
TEST(JinjaErrors, LimitsHold) {
  const char* const sources[] = {
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ "
      "ns.s }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
      "{{ ns.l | tojson }}",
      "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ ns.l == ns.k }}",
      "{{ 'x' * 1000000000000 }}",
      "{{ [0] * 1000000000000 }}",
      "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}",
      "{{ range(100000) | list | join('x' * 1000000) }}",
      "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
      "{% set ns = namespace(f=1) %}{% for a in range(90000) %}{% for b in range(90) %}{% set ns.f = loop %}"
      "{% endfor %}{% endfor %}",
  };
  Limits limits;
  limits.max_iterations = 200'000;
  limits.max_steps = 500'000;
  limits.max_output_bytes = 1 << 20;
  limits.max_work_bytes = 64 << 20;
  for (const char* source : sources) {
    const Result<std::string> text = rendered(source, limits);
    ASSERT_FALSE(text.ok()) << source;
    EXPECT_EQ(code_name(text.status().code()), code_name(Code::kResourceExhausted))
        << text.status().message();
  }
}

TEST(JinjaErrors, DeepSourceIsRefused) {
  const auto repeat = [](std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  const std::string sources[] = {
      "{{ " + repeat("(", 5000) + "1" + repeat(")", 5000) + " }}",
      "{{ " + repeat("[", 5000) + repeat("]", 5000) + " }}",
      "{{ " + repeat("-", 5000) + "1 }}",
      "{{ " + repeat("not ", 5000) + "1 }}",
      "{{ a" + repeat(".b", 5000) + " }}",
      "{{ a" + repeat("|trim", 5000) + " }}",
      "{{ a" + repeat("[0]", 5000) + " }}",
      "{{ 1" + repeat(" if 1", 5000) + " }}",
      "{{ 1" + repeat(" if 1 else 1", 5000) + " }}",
      repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000),
      "{% set " + repeat("(", 5000) + "a" + repeat(")", 5000) + " = 1 %}",
      "{{ " + repeat("a|trim(", 5000) + repeat(")", 5000) + " }}",
  };
  for (const std::string& source : sources) {
    const Result<Block> block = parse_template(source);
    ASSERT_FALSE(block.ok()) << source.substr(0, 40);
    EXPECT_EQ(code_name(block.status().code()), code_name(Code::kResourceExhausted))
        << block.status().message();
  }
  // Long but flat is fine.
  EXPECT_EQ(*rendered("{{ 0" + repeat(" + 1", 5000) + " }}"), "5000");
  EXPECT_EQ(*rendered("{% if 0 %}" + repeat("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"), "x");
}

}  // namespace
}  // namespace isthmus::jinja
