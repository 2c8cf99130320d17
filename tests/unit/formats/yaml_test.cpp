#include "core/formats/yaml.h"

#include "core/formats/yaml_json.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl {

namespace {

enum class Color { red, green };

YamlNode parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_yaml(text, "job.yaml", overrides);
}

// The value of a key that `text` holds at the top.
YamlNode at(const std::string& text, const std::string& key) {
  return YamlMapping(parse(text)).require(key);
}

}  // namespace

TEST_CASE("typed reads with defaults and bounds") {
  YamlMapping top(parse("n: 3\nx: 0.5\nb: true\nt: hello\nc: green\nl: [1, 2]\nm:\n  k: 1\n"));
  int n = 0;
  double x = 0, y = 7;
  bool b = false;
  std::string t;
  Color c = Color::red;
  CHECK(top.read("n", n, 1, 5));
  CHECK(top.read("x", x, between(0, 1)));
  CHECK_FALSE(top.read("y", y));
  CHECK(top.read("b", b));
  CHECK(top.read("t", t));
  CHECK(top.read_choice<Color>("c", c, {{"red", Color::red}, {"green", Color::green}}));
  CHECK(n == 3);
  CHECK(x == 0.5);
  CHECK(y == 7);
  CHECK(b);
  CHECK(t == "hello");
  CHECK(c == Color::green);
  const std::vector<YamlNode> items = top.require("l").list(1, 2);
  REQUIRE(items.size() == 2);
  CHECK(items[1].integer() == 2);
  CHECK(items[1].path() == "l.1");
  CHECK(items[1].line() == 6);
  CHECK_ERROR(top.finish(), "job.yaml:8: m: unknown key; known here: n, x, y, b, t, c, l");
  YamlMapping inner(top.require("m"));
  CHECK(inner.require("k").number() == 1.0);
  inner.finish();
  top.finish();
}

TEST_CASE("complaints say file, line, field and what is allowed") {
  CHECK_ERROR(at("\n\nn: x", "n").integer(1, 5),
              "job.yaml:3: n: is x; it must be an integer from 1 to 5");
  CHECK_ERROR(at("n: 9", "n").integer(1, 5), "is 9; it must be an integer from 1 to 5");
  CHECK_ERROR(at("n: 3.0", "n").integer(), "is 3.0; it must be an integer");
  CHECK_ERROR(at("n: '3'", "n").integer(), "is the text \"3\"; it must be an integer");
  CHECK_ERROR(at("n: 0", "n").number(above(0)), "is 0; it must be a number above 0");
  CHECK_ERROR(at("n: 1", "n").number(from_to_below(0, 1)), "a number at least 0 and below 1");
  CHECK_ERROR(at("n: .inf", "n").number(), "is .inf; it must be a number");
  CHECK_ERROR(at("n: nan", "n").number(), "it must be a number");
  CHECK_ERROR(at("n: yes", "n").boolean(), "is yes; it must be true or false");
  CHECK_ERROR(at("n:", "n").text(), "n: is empty; it must be text");
  CHECK_ERROR(at("n: [1]", "n").text(), "n: is a list; it must be text");
  CHECK_ERROR(at("n: 1", "n").list(), "is 1; it must be a list");
  CHECK_ERROR(at("n: [1]", "n").list(2), "has 1 items; allowed are at least 2");
  CHECK_ERROR(at("n: sdg", "n").choice({"sgd", "adam"}),
              "is sdg; did you mean sgd? it must be one of sgd, adam");
  CHECK_ERROR(at("a: 1", "b"), "job.yaml:1: b: is missing");
  CHECK_ERROR(YamlMapping(at("a: [1]", "a")), "a: is a list; it must be a mapping");
  CHECK_ERROR(YamlMapping(parse("[1]")), "job.yaml:1: is a list; it must be a mapping");
  CHECK(at("n: \"\"", "n").text().empty());
}

TEST_CASE("unknown keys get a suggestion") {
  YamlMapping top(parse("epochs: 1\nsede: 3\n"));
  top.find("epochs");
  top.find("seed");
  CHECK_ERROR(top.finish(), "job.yaml:2: sede: unknown key; did you mean seed? known here:");
}

TEST_CASE("what YAML allows and we do not") {
  CHECK_ERROR(parse("a: 1\nb: 2\na: 3\n"),
              "job.yaml:3: a: is given twice; it is first given on line 1");
  CHECK_ERROR(parse("a: !!python/object 1"), "the tag tag:yaml.org,2002:python/object");
  CHECK_ERROR(parse("a: !x [1]"), "tag");
  CHECK_ERROR(parse("[1]: 2"), "a key must be text");
  CHECK_ERROR(parse("? {a: 1}\n: 2"), "a key must be text");
  CHECK_ERROR(parse("~: 2"), "a key must be text");
  CHECK_ERROR(parse("a: 1\n---\nb: 2\n"), "several YAML documents");
  CHECK_ERROR(parse("a: [1, 2"), "not valid YAML");
  CHECK_ERROR(parse("a: \"x"), "not valid YAML");
  CHECK_ERROR(parse("a: *b"), "not valid YAML");
  CHECK_ERROR(parse("a: &a [*a]"), "an alias inside its own anchor");
}

TEST_CASE("empty text is an empty mapping") {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "~"}) {
    CAPTURE(text);
    YamlMapping top(parse(text));
    CHECK(top.keys().empty());
    top.finish();
  }
  YamlMapping optional(at("a:", "a"), true);
  CHECK(optional.keys().empty());
  CHECK_FALSE(optional.find("x").present());
}

TEST_CASE("aliases are expanded, within limits") {
  YamlMapping top(parse("a: &x {k: 1}\nb: *x\n"));
  CHECK(YamlMapping(top.require("b")).require("k").integer() == 1);

  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += "*a" + std::to_string(i - 1) + ", ";
    laughs += "x]\n";
  }
  CHECK_ERROR(parse(laughs), "more than 20000 values after expanding aliases");
}

TEST_CASE("size and depth are bounded") {
  CHECK_ERROR(parse(std::string((1 << 20) + 1, ' ')), "bytes are more than");
  CHECK_ERROR(parse("a: " + std::string(40, '[') + std::string(40, ']')), "nested more than 32");
  CHECK_ERROR(parse(std::string(100'000, '[')), "job.yaml:1");
  CHECK_ERROR(parse(std::string(100'000, '{')), "job.yaml:1");
  std::string many;
  for (int i = 0; i < 60'000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  CHECK_ERROR(parse(many), "more than 20000 values");
  std::string nested;
  for (int i = 0; i < 600; ++i) nested += std::string(i, ' ') + "a:\n";
  CHECK_ERROR(parse(nested), "nested more than 32");
}

TEST_CASE("overrides replace, add and append before anything is read") {
  const std::string text = "optimizer:\n  lr: 1\ndata:\n  train:\n    - path: a\n";
  YamlMapping top(parse(text, {"optimizer.lr=0.25", "optimizer.betas=[0.9, 0.99]", "name=x y: z",
                               "data.train.0.path=b.npy", "data.train.1.path=c", "new.deep.key=1",
                               "empty=", "match=*.weight"}));
  YamlMapping optimizer(top.require("optimizer"));
  CHECK(optimizer.require("lr").number() == 0.25);
  CHECK(optimizer.require("betas").list()[1].number() == 0.99);
  CHECK(top.require("name").text() == "x y: z");
  CHECK(top.require("match").text() == "*.weight");
  CHECK(top.require("empty").text().empty());
  const auto train = YamlMapping(top.require("data")).require("train").list();
  REQUIRE(train.size() == 2);
  CHECK(YamlMapping(train[0]).require("path").text() == "b.npy");
  CHECK(YamlMapping(train[1]).require("path").text() == "c");
  YamlMapping inner(top.require("new"));
  CHECK(YamlMapping(inner.require("deep")).require("key").integer() == 1);
}

TEST_CASE("complaints about an override name it") {
  CHECK_ERROR(YamlMapping(parse("a: 1", {"a=x"})).require("a").integer(),
              "--set a=x: a: is x; it must be an integer");
  CHECK_ERROR(parse("a: 1", {"a"}), "--set a: is not KEY=VALUE");
  CHECK_ERROR(parse("a: 1", {"=1"}), "is not KEY=VALUE");
  CHECK_ERROR(parse("a: 1", {"a.b=1"}), "--set a.b=1: cannot set 'b': its parent is a plain value");
  CHECK_ERROR(parse("a: [1]", {"a.2=1"}), "give 0 to 1 (1 appends)");
  CHECK_ERROR(parse("a: [1]", {"a.x=1"}), "'x' is not an index of that list");
  CHECK_ERROR(parse("a: 1", {"b..c=1"}), "empty part");
  CHECK_ERROR(parse("a: 1", {"b.=1"}), "empty part");
  CHECK_ERROR(parse("a: 1", {"b=[1"}), "--set b=[1: not valid YAML");
  std::string deep = "a";
  for (int i = 0; i < 50; ++i) deep += ".a";
  CHECK_ERROR(parse("", {deep + "=1"}), "nested more than 32");
}

TEST_CASE("YAML becomes JSON by the core schema") {
  const Json json = yaml_to_json(parse_yaml(R"(
n: [null, ~, "", , 1, -7, 18446744073709551615, 2.5, 1e3, .inf, inf, nan, 0x1f, 1_000]
b: [true, false, yes, "true"]
t: |
  text
e:
)",
                                            "f"));
  CHECK(json == Json::parse(R"({
    "n": [null, null, "", null, 1, -7, 18446744073709551615, 2.5, 1000.0, ".inf", "inf", "nan",
          31, "1_000"],
    "b": [true, false, "yes", "true"], "t": "text\n", "e": null})"));
  CHECK(yaml_to_json(YamlNode()).is_null());
}

TEST_CASE("a leading zero is octal in JSON, as for kubectl, and refused where a number is read") {
  const Json json = yaml_to_json(parse_yaml(R"(
n: [0400, -017, 00, 007, 0o400, -0x10, 0, 00.5, 0xffffffffffffffff, -01000000000000000000000]
t: [089, "0400", 0o9, 0x, 0x-1, 0o, 07777777777777777777777777, -0xffffffffffffffff, 0_1]
)",
                                            "f", {"set=0400"}));
  CHECK(json == Json::parse(R"({
    "n": [256, -15, 0, 7, 256, -16, 0, 0.5, 18446744073709551615, -9223372036854775808],
    "t": ["089", "0400", "0o9", "0x", "0x-1", "0o", "07777777777777777777777777",
          "-0xffffffffffffffff", "0_1"], "set": 400})"));

  YamlMapping top(parse("a: 010\nb: 007\nc: 09.5\n", {"d=010"}));
  CHECK_ERROR(top.require("a").integer(0, 20),
              "job.yaml:1: a: is 010; it must be an integer from 0 to 20; write it without");
  CHECK_ERROR(top.require("a").number(), "which makes it octal in YAML 1.1");
  CHECK(top.require("b").integer() == 7);
  CHECK(top.require("c").number() == 9.5);
  CHECK(top.require("d").integer() == 10);
}

}  // namespace adaptdl
