#include "core/formats/yaml_parse.h"

#include <algorithm>
#include <istream>
#include <map>
#include <streambuf>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "core/base/error.h"

namespace adaptdl {

namespace {

using Kind = YamlValue::Kind;
using Pointer = YamlValue::Pointer;

class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // only read from
    setg(begin, begin, begin + text.size());
  }
};

class Builder : public YAML::EventHandler {
 public:
  Builder(const std::string& file, bool lines, YamlLimits limits)
      : file_(file), lines_(lines), limits_(limits) {}

  Pointer root() const { return root_; }
  const std::string& problem() const { return problem_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(mark, Kind::null), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Pointer value = make(mark, Kind::scalar);
    // yaml-cpp marks plain scalars with the tag "?" and quoted ones with "!".
    if (tag != "?" && tag != "!") refuse_tag(mark, tag);
    value->quoted = tag == "!";
    value->text = text;
    add(value, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Kind::list);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Kind::mapping);
  }
  void OnMapEnd() override { end(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    // An anchor is registered at its end, so a value cannot contain itself.
    if (found == anchors_.end()) refuse(mark, "an alias inside its own anchor is not allowed");
    add(copy(mark, *found->second, static_cast<int>(open_.size())), 0);
  }

 private:
  struct Open {
    Pointer value;
    YAML::anchor_t anchor;
    bool have_key = false;
    std::string key;
  };

  std::string where(int line) const { return lines_ ? fmt::format("{}:{}", file_, line) : file_; }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& problem) const {
    fail("{}: {}", where(mark.line + 1), problem);
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    refuse(mark, fmt::format("the tag {} is not allowed; write plain values", tag));
  }

  Pointer make(const YAML::Mark& mark, Kind kind) {
    if (++nodes_ > limits_.max_nodes) {
      refuse(mark, fmt::format("more than {} values after expanding aliases", limits_.max_nodes));
    }
    auto value = std::make_shared<YamlValue>();
    value->kind = kind;
    value->line = mark.line + 1;
    value->where = where(value->line);
    return value;
  }

  Pointer copy(const YAML::Mark& mark, const YamlValue& from, int depth) {
    check_depth(mark, depth);
    Pointer value = make(mark, from.kind);
    value->quoted = from.quoted;
    value->text = from.text;
    for (const Pointer& item : from.items) value->items.push_back(copy(mark, *item, depth + 1));
    for (const auto& [key, member] : from.members) {
      value->members.emplace_back(key, copy(mark, *member, depth + 1));
    }
    return value;
  }

  void check_depth(const YAML::Mark& mark, int depth) const {
    if (depth >= limits_.max_depth) {
      refuse(mark, fmt::format("nested more than {} deep", limits_.max_depth));
    }
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
    // Lists and mappings without a tag have "?" or none.
    if (!tag.empty() && tag != "?") refuse_tag(mark, tag);
    check_depth(mark, static_cast<int>(open_.size()));
    open_.push_back({make(mark, kind), anchor});
  }

  void end() {
    const Open last = std::move(open_.back());
    open_.pop_back();
    add(last.value, last.anchor);
  }

  void add(const Pointer& value, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = value;
    if (open_.empty()) {
      root_ = value;
      return;
    }
    Open& parent = open_.back();
    if (parent.value->kind == Kind::list) {
      parent.value->items.push_back(value);
    } else if (!parent.have_key) {
      take_key(parent, *value);
    } else {
      parent.value->members.emplace_back(std::move(parent.key), value);
      parent.have_key = false;
    }
  }

  void take_key(Open& parent, const YamlValue& key) {
    // Reported only at the end: an unclosed bracket first looks like this, and yaml-cpp then has
    // the better message.
    if (key.kind != Kind::scalar && problem_.empty()) problem_ = key.where + ": a key must be text";
    if (const Pointer* first = parent.value->find(key.text)) {
      fail("{}: {}: is given twice; it is first given on line {}", key.where, key.text,
           (*first)->line);
    }
    parent.key = key.text;
    parent.have_key = true;
  }

  const std::string& file_;
  const bool lines_;
  const YamlLimits limits_;
  std::string problem_;
  size_t nodes_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Pointer> anchors_;
  Pointer root_;
};

}  // namespace

bool depends_on_yaml_version(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (!text.starts_with('0') || text.find_first_not_of("0123456789") != text.npos) return false;
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  return text.size() > 1 || text > "7";
}

Pointer parse_yaml_document(std::string_view text, const std::string& file, bool lines,
                            YamlLimits limits) {
  if (text.size() > limits.max_bytes) {
    fail("{}: {} bytes are more than the {} allowed", file, text.size(), limits.max_bytes);
  }
  Builder builder(file, lines, limits);
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Builder rest(file, lines, limits);
    if (parser.HandleNextDocument(rest)) {
      fail("{}: holds several YAML documents; only one is allowed", file);
    }
  } catch (const YAML::Exception& error) {
    const std::string line = lines ? fmt::format(":{}", error.mark.line + 1) : "";
    fail("{}{}: not valid YAML (column {}): {}", file, line, error.mark.column + 1, error.msg);
  }
  if (!builder.problem().empty()) fail("{}", builder.problem());
  Pointer root = builder.root();
  if (root == nullptr) root = std::make_shared<YamlValue>();
  if (root->kind == Kind::null) {
    root->kind = Kind::mapping;
    root->line = 1;
    root->where = lines ? file + ":1" : file;
  }
  return root;
}

}  // namespace adaptdl
