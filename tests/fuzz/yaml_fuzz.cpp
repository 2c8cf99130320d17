#include "core/base/error.h"
#include "core/formats/yaml.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

// Reads a value in every way there is; at most one of them fits.
void visit(const YamlNode& node) {
  const auto try_to = [](auto&& read) {
    try {
      read();
    } catch (const Error&) {
      // of another type
    }
  };
  try_to([&] { node.text(); });
  try_to([&] { node.integer(-5, 5); });
  try_to([&] { node.number(above(0)); });
  try_to([&] { node.boolean(); });
  try_to([&] { node.choice({"sgd", "adam"}); });
  if (node.is_list()) {
    for (const YamlNode& item : node.list()) visit(item);
  }
  if (node.is_mapping()) {
    YamlMapping mapping(node);
    for (const std::string& key : mapping.keys()) visit(mapping.require(key));
    mapping.finish();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The lines that begin with '@' are overrides, the others the document.
  std::string document;
  std::vector<std::string> overrides;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (text[begin] == '@' && overrides.size() < 100) {
      overrides.push_back(text.substr(begin + 1, end - begin - 1));
    } else {
      document.append(text, begin, end - begin);
    }
    begin = end;
  }
  try {
    visit(parse_yaml(document, "fuzz.yaml", overrides, {.max_bytes = 1 << 16, .max_nodes = 2000}));
  } catch (const Error&) {
    // refused
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {
          "optimizer:\n  kind: sgd\n  lr: 0.1\n  groups:\n    - match: '*.bias'\n      lr: 1e-3\n",
          "a: &x {k: [1, 2.5, true], \"q\": 'single'}\nb: *x\nc: [*x, *x]\n",
          "# comment\n---\ntext: |\n  block\n  text\nfolded: >-\n  more\n\n  text\n? k\n: v\n",
          "a: !!str 1\nb: !tag [x]\n...\n",
          "%YAML 1.2\n---\n- - - deep\n- {a: {b: {c: []}}}\n- ~\n-\n",
          "a: 1\nl: [1, 2]\n@a=2\n@b.c.d=[1, {x: y}]\n@l.2=3\n@l.0=\"q\"\n@e=\n",
      },
      {"&x ", "*x",   "!!int ",  "[",     "]",  "{",  "}", "- ", "? ",   ": ",  "\n---\n",
       "|\n", "<<: ", "\n@a.0=", "%YAML", "\t", "\"", "'", "#",  ".inf", "\n  "}};
}
