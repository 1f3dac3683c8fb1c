// Tests the Jinja subset against Jinja2's output for the same source.
#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace forerun {
namespace {

std::string rendered(const std::string& source, const std::string& variables = "{}") {
  const auto chat = ChatTemplate::parse(source);
  if (!chat.ok()) return "parse: " + chat.status().message();
  ChatInput input;
  input.messages = {{"user", "hi"}, {"assistant", " yo "}};
  input.variables_json = variables;
  input.bos_token = "<s>";
  input.now_unix_s = 1721952000;
  const auto text = chat->render(input);
  return text.ok() ? *text : "render: " + text.status().message();
}

struct Case {
  std::string source, expected;
};

class Jinja : public ::testing::TestWithParam<Case> {};

TEST_P(Jinja, RendersAsExpected) {
  EXPECT_EQ(rendered(GetParam().source,
                     R"({"s": "Hello World", "n": 7, "f": 2.5, "l": [3, 1, 2], "t": true,
                         "d": {"b": 1, "a": [1, "x"]}, "u": "\u00e4\u00f6 \u6f22", "z": null,
                         "people": [{"name": "Bo", "age": 3}, {"name": "al", "age": 5}]})"),
            GetParam().expected)
      << GetParam().source;
}

const Case kWhiteSpace[] = {
    {"a\n{% if true %}\nb\n{% endif %}\nc", "a\nb\nc"},
    {"  {% if true %}  x  {% endif %}\n", "  x  "},
    {"a  {{- 'b' -}}  c", "abc"},
    {"a\n  {%- if true -%}\n b \n{%- endif %}\nc", "abc"},
    {"{# note #}\nx", "x"},
    {"{#- note -#}  x", "x"},
    {"  {%+ if true %}x{% endif %}", "  x"},
    {"{% if true +%}\nx{% endif %}", "\nx"},
    {"x\r\ny\n\n", "x\ny\n"},
    {"{% raw %}{{ n }}{% endraw %}", "{{ n }}"},
    {"{{ n }}\n{{ n }}\n", "7\n7"},
};
const Case kExpressions[] = {
    {"{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }}",
     "6 3.5 -4 2 8"},
    {"{{ 'a' ~ 1 ~ none ~ true }}", "a1NoneTrue"},
    {"{{ 'a' 'b' + 'c' * 3 }}", "abccc"},
    {"{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'cat' }} {{ 2 not in l }}",
     "True False True False"},
    {"{{ not true or t and n }}", "7"},
    {"{{ 'y' if n > 3 else 'n' }}{{ 'y' if n < 3 }}", "y"},
    {"{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ s[:5] }} {{ s[-5:-1] }} {{ u[3] }}",
     "3 2 [1, 2] [2, 1, 3] Hello Worl \xe6\xbc\xa2"},
    {"{{ d.b }} {{ d['a'][1] }} {{ d.missing is defined }} [{{ d.missing }}]", "1 x False []"},
    {"{{ {'k': [1, 2.0, 'q\\'s', none]} }} {{ (1,) }} {{ [] }}",
     "{'k': [1, 2.0, \"q's\", None]} (1,) []"},
    {"{{ 1e3 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 10 ** 16 / 1 }}",
     "1000.0 1.0 0.30000000000000004 1e+16"},
    {"{{ 'a\\n\\t\\x41\\u00e4\\q' }}", "a\n\tA\xc3\xa4\\q"},
    {"{{ messages[0].role }}{{ bos_token }}{{ tools is none }}", "user<s>True"},
    {"{{ {'a': {'b': 1}}}}", "{'a': {'b': 1}}"},
};
const Case kStatements[] = {
    {"{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}"
     "{% endfor %}",
     "1/3:3, 2/3:1, 3/3:2"},
    {"{% for x in l if x > 1 %}{{ loop.index0 }}{{ x }}{% endfor %}", "0312"},
    {"{% for x in [] %}x{% else %}none{% endfor %}", "none"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=[1, 'x'];"},
    {"{% for x in l %}{{ loop.previtem }}<{{ loop.nextitem }} {% endfor %}", "<1 3<2 1< "},
    {"{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}"
     "{% endif %}{{ x }}{% endfor %}",
     "023"},
    {"{% set x = 1 %}{% for y in l %}{% set x = y %}{% endfor %}{{ x }}", "1"},
    {"{% set ns = namespace(x=1) %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}",
     "7"},
    {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
    {"{% set x | upper | trim %} ab {% endset %}[{{ x }}]", "[AB]"},
    {"{% macro m(a, b='q') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}", "1q32"},
    {"{% set g = 5 %}{% macro m() %}{{ g }}{{ x is defined }}{% endmacro %}"
     "{% for x in [1] %}{{ m() }}{% endfor %}",
     "5False"},
    {"{% filter upper %}ab{{ n }}{% endfilter %}", "AB7"},
    {"{% generation %}x{% endgeneration %}", "x"},
    {"{% with q = 3 %}{{ q }}{% endwith %}{{ q is defined }}", "3False"},
    {"{% if n == 1 %}a{% elif n == 7 %}b{% else %}c{% endif %}", "b"},
    {"{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"},
};
const Case kFilters[] = {
    {"{{ d | tojson }}", R"({"b": 1, "a": [1, "x"]})"},
    {"{{ d | tojson(indent=2) }}", "{\n  \"b\": 1,\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}"},
    {"{{ u | tojson }} {{ '<a\\'\"\\n' | tojson }} {{ {} | tojson(indent=4) }}",
     "\"\xc3\xa4\xc3\xb6 \xe6\xbc\xa2\" \"<a'\\\"\\n\" {}"},
    {"{{ u | length }} {{ l | length }} {{ missing | length }}", "4 3 0"},
    {"{{ ' a ' | trim }}|{{ 'xxaxx' | trim('x') }}", "a|a"},
    {"{{ u | upper }} {{ 'hELLO wORLD' | capitalize }} {{ 'hello wORLD' | title }}",
     "\xc3\x84\xc3\x96 \xe6\xbc\xa2 Hello world Hello World"},
    {"{{ 'ΑΣ' | lower }} {{ 'ΑΣ'.lower() }} {{ 'ΑΣ ΣΑΣ' | title }} {{ 'ΑΣ ΣΑΣ'.title() }}",
     "ας ας Ασ Σας Ας Σας"},
    {"{{ 'ß' | upper }} {{ 'ßA' | capitalize }} {{ 'Maße'.casefold() }} {{ 'ß' is lower }}",
     "SS Ssa masse True"},
    {"{{ l | join(', ') }} {{ people | join('/', attribute='name') }}", "3, 1, 2 Bo/al"},
    {"{{ missing | default('x') }} {{ '' | default('x', true) }} {{ 0 | d(1) }}", "x x 0"},
    {"{{ l | first }}{{ l | last }}{{ l | sort | list }}{{ l | reverse | list }}",
     "32[1, 2, 3][2, 1, 3]"},
    {"{{ people | selectattr('age', 'gt', 3) | map(attribute='name') | list }}", "['al']"},
    {"{{ people | rejectattr('name', 'equalto', 'Bo') | list | length }}", "1"},
    {"{{ people | sort(attribute='name') | map(attribute='age') | join }}", "53"},
    {"{{ ['b', 'a', 'B'] | unique | list }} {{ l | map('string') | join('-') }}",
     "['b', 'a'] 3-1-2"},
    {"{{ d | items | list }} {{ d | dictsort }}",
     "[('b', 1), ('a', [1, 'x'])] [('a', [1, 'x']), ('b', 1)]"},
    {"{{ 'a\\nb\\n\\nc' | indent(2) }}", "a\n  b\n\n  c"},
    {"{{ '42' | int + 1 }} {{ 'x' | int(9) }} {{ '2.5' | float }} {{ 7 | string + '!' }}",
     "43 9 2.5 7!"},
    {"{{ l | sum }} {{ l | min }} {{ l | max }} {{ 2.567 | round(1) }} {{ -3 | abs }}",
     "6 1 3 2.6 3"},
    {"{{ l | select('odd') | list }} {{ 'aXbX' | replace('X', '-') }}", "[3, 1] a-b-"},
};
const Case kMethodsAndTests[] = {
    {"{{ '  x '.strip() }}|{{ 'xxyx'.lstrip('x') }}|{{ 'xyx'.rstrip('x') }}", "x|yx|xy"},
    {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.split('-', 1) }}",
     "['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b-c']"},
    {"{{ 'a</t>b</t>c'.split('</t>')[-1] }} {{ 'a-b-c'.rsplit('-', 1)[0] }}", "c a-b"},
    {"{{ s.startswith('Hell') }} {{ s.endswith(('x', 'ld')) }} {{ s.replace('l', 'L', 1) }}",
     "True True HeLlo World"},
    {"{{ d.keys() | list }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 4) }}",
     "['b', 'a'] 1 None 4"},
    {"{{ \"it's\".title() }} {{ \"it's (so)\" | title }}", "It'S It's (So)"},
    {"{{ s.find('W') }} {{ s.count('o') }} {{ ' '.join(['a', 'b']) }} {{ s.lower() }}",
     "6 2 a b hello world"},
    {"{{ n is number }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ t is boolean "
     "}}",
     "True True True True True"},
    {"{{ z is none }} {{ z is not none }} {{ q is undefined }} {{ n is odd }} {{ n is divisibleby "
     "7 }}",
     "True False True True True"},
    {"{{ n is in [1, 7] }} {{ n is eq 7 }} {{ d is sequence }} {{ s is sequence }} {{ f is float "
     "}}",
     "True True True True True"},
    {"{{ n is defined and n == 7 }} {{ q is not defined or false }}", "True True"},
};

INSTANTIATE_TEST_SUITE_P(WhiteSpace, Jinja, ::testing::ValuesIn(kWhiteSpace));
INSTANTIATE_TEST_SUITE_P(Expressions, Jinja, ::testing::ValuesIn(kExpressions));
INSTANTIATE_TEST_SUITE_P(Statements, Jinja, ::testing::ValuesIn(kStatements));
INSTANTIATE_TEST_SUITE_P(Filters, Jinja, ::testing::ValuesIn(kFilters));
INSTANTIATE_TEST_SUITE_P(MethodsAndTests, Jinja, ::testing::ValuesIn(kMethodsAndTests));

TEST(JinjaErrors, NameTheLineAndTheCause) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{% if x %}", "line 2: found the end of the template; accepted: {% endif %}"},
      {"{{ 1 + }}", "line 1: found }}; accepted: an expression"},
      {"{% include 'x' %}", "found statement include"},
      {"{{ x | nofilter }}", "nofilter"},
      {"{{ x is notest }}", "notest"},
      {"{{ x.y }}", "'x' is undefined"},
      {"{{ 'a' + 1 }}", "found a string and an integer"},
      {"\n\n{{ raise_exception('no tools here') }}", "line 3: the template refuses: no tools here"},
      {"{{ 1 // 0 }}", "division by zero"},
      {"{% set x.y = 1 %}", "accepted: a namespace"},
      {"{% break %}", "outside a loop"},
      {"{{ x() }}", "call of 'x'"},
      {"{{ 'abc }}", "closing quote"},
      {"{% for a in b recursive %}{% endfor %}", "recursive"},
      {"{{ {'a': 2} | dictsort(backwards=true) }}",
       "dictsort: found backwards=; accepted: (case_sensitive?, by?, reverse?)"},
      {"{{ 'a'.replace('b') }}", "replace(): found no new; accepted: (old, new, count?)"},
      {"{{ [1] | map('string') | tojson }}", "a generator (a list after \"| list\")"},
      {"{{ 2 ** 64 }}", "result of more than 64 bits"},
      {"{{ 12345678901234567890 + 1 }}", "an integer past 64 bits"},
      {"{% set ns = namespace() %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}"
       "{% for x in [1] %}{% call m() %}{{ x }}{% endcall %}{% endfor %}{{ ns.c() }}",
       "after the block that defines it had ended"},
  };
  for (const auto& [source, expected] : cases) {
    EXPECT_NE(rendered(source).find(expected), std::string::npos)
        << source << "\n  gave " << rendered(source);
  }
}

TEST(JinjaLimits, HostileTemplatesAreRefused) {
  std::string deep_list, deep_if, long_sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) deep_list += '[';
  for (int i = 0; i < 500; ++i) deep_if += "{% if true %}";
  for (int i = 0; i < 50'000; ++i) long_sum += "+1";
  const std::string sources[] = {
      "{{ " + deep_list + " }}",
      "{{ " + std::string(100'000, '-') + "1 }}",
      deep_if,
      long_sum + " }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% set x = namespace(s='ab') %}{% for i in range(99) %}{% set x.s = x.s ~ x.s %}{% endfor "
      "%}",
      "{% set x = namespace(l=[1]) %}{% for i in range(99) %}{% set x.l = x.l + x.l %}{% endfor %}",
      "{% set x = namespace(l=[1]) %}{% for i in range(999) %}{% set x.l = [x.l] %}{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ range(1000000000) }}",
      "{{ 'a' * 1000000000000 }}",
      "{{ 2 ** 9999999 }}",
      "{{ '{:99999999}'.format(1) }}",
      "{{ '%99999999d' % 1 }}",
      "{{ '{:.999}'.format(1.5) }}",
      "{{ 'a' | center(99999999) }}",
      "{{ [1] | batch(999999999999, 0) | list }}",
      "{{ [1] | slice(999999999999) | list }}",
      "{{ 0x" + std::string(9'000, 'f') + " }}",
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}{% "
      "endcall %}",
      "{% set x = namespace() %}{% set x.x = {x: 1} %}",
      "{% set x = namespace() %}{% set x.x = x %}",
      "{% set x = namespace() %}{% set x.x = [x] %}",
  };
  for (const std::string& source : sources) {
    const std::string got = rendered(source);
    EXPECT_TRUE(got.starts_with("parse: ") || got.starts_with("render: "))
        << source.substr(0, 80) << " gave " << got.substr(0, 80);
  }
}

class CheckpointDir : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ =
        std::filesystem::temp_directory_path() / ("chat_template_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  void write(const char* name, const std::string& text) const {
    std::ofstream(dir_ / name) << text;
  }

  std::filesystem::path dir_;
};

TEST_F(CheckpointDir, FindsTheTemplateWhereverItIs) {
  EXPECT_EQ(ChatTemplate::load(dir_).status().code(), StatusCode::kNotFound);
  write("tokenizer_config.json", R"({"bos_token": {"content": "<b>"}})");
  const Status none = ChatTemplate::load(dir_).status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_NE(none.message().find("chat_template.jinja"), std::string::npos);

  const auto render = [&](const ChatInput& input = {}) {
    const auto chat = ChatTemplate::load(dir_);
    EXPECT_TRUE(chat.ok()) << chat.status().message();
    return chat.ok() ? *chat->render(input) : "";
  };
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<b>"}, "chat_template": "{{ bos_token }}one"})");
  EXPECT_EQ(render(), "<b>one");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                              {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(render(), "plain");
  ChatInput with_tools;
  with_tools.tools_json = "[{}]";
  EXPECT_EQ(render(with_tools), "tools");
  write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(render(), "from json");
  write("chat_template.jinja", "from jinja");
  EXPECT_EQ(render(), "from jinja");
  write("chat_template.jinja", "x\n{% nonsense %}");
  const std::string message = ChatTemplate::load(dir_).status().message();
  EXPECT_NE(message.find("chat_template.jinja: line 2"), std::string::npos) << message;
  write("chat_template.jinja", " \n");
  EXPECT_EQ(ChatTemplate::load(dir_).status().message(),
            (dir_ / "chat_template.jinja").string() +
                ": found an empty template; accepted: a Jinja template of messages (raw prompts "
                "need none)");
}

TEST_F(CheckpointDir, TakesTheToolTemplateBesideTheOthers) {
  const auto render = [&](const std::string& tools_json) {
    const auto chat = ChatTemplate::load(dir_);
    EXPECT_TRUE(chat.ok()) << chat.status().message();
    ChatInput input;
    input.tools_json = tools_json;
    return chat.ok() ? *chat->render(input) : "";
  };
  std::filesystem::create_directories(dir_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "with {{ tools | length }} tools");
  write("chat_template.jinja", "plain");
  EXPECT_EQ(render(""), "plain");
  EXPECT_EQ(render("[{}]"), "with 1 tools");
  EXPECT_EQ(render("[]"), "with 0 tools");  // transformers tests for none, not for emptiness
  EXPECT_EQ(render("null"), "plain");
  write("additional_chat_templates/tool_use.jinja", "{% nonsense %}");
  const std::string message = ChatTemplate::load(dir_).status().message();
  EXPECT_NE(message.find("tool_use.jinja: line 1"), std::string::npos) << message;
}

TEST_F(CheckpointDir, FindsSpecialTokensInBothFiles) {
  write(
      "chat_template.jinja",
      "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ sep_token is defined }}");
  const auto render = [&](const ChatInput& input = {}) {
    const auto chat = ChatTemplate::load(dir_);
    EXPECT_TRUE(chat.ok()) << chat.status().message();
    return chat.ok() ? *chat->render(input) : "";
  };
  EXPECT_EQ(render(), "||||False");
  write("special_tokens_map.json",
        R"({"bos_token": {"content": "<b>"}, "eos_token": "<e>", "pad_token": "<p>"})");
  EXPECT_EQ(render(), "<b>|<e>||<p>|False");
  // A config that lists its tokens has priority, an older one does not.
  const std::string tokens = R"("eos_token": "<E>", "pad_token": null, "unk_token": "<u>"})";
  write("tokenizer_config.json", R"({"added_tokens_decoder": {}, )" + tokens);
  EXPECT_EQ(render(), "<b>|<E>|<u>||False");
  write("tokenizer_config.json", "{" + tokens);
  EXPECT_EQ(render(), "<b>|<e>|<u>|<p>|False");
  ChatInput input;
  input.eos_token = "<mine>";
  EXPECT_EQ(render(input), "<b>|<mine>|<u>|<p>|False");
  write("special_tokens_map.json", "{");
  EXPECT_NE(ChatTemplate::load(dir_).status().message().find("special_tokens_map.json"),
            std::string::npos);
}

TEST(ChatInputs, BrokenOnesAreRefused) {
  const auto chat = ChatTemplate::parse("{{ messages | length }}");
  ASSERT_TRUE(chat.ok());
  for (const char* messages : {"{", "{}", "\"x\"", "[1", "nul"}) {
    ChatInput input;
    input.messages_json = messages;
    EXPECT_EQ(chat->render(input).status().code(), StatusCode::kInvalidArgument) << messages;
  }
  ChatInput deep;
  deep.messages_json = std::string(100'000, '[');
  EXPECT_FALSE(chat->render(deep).ok());
}

}  // namespace
}  // namespace forerun
