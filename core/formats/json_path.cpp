#include "core/formats/json_path.h"

#include <cctype>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {
namespace {

constexpr int kDeepest = 16;  // nested ranges and filters

struct Path;

struct PathStep {
  enum class Kind { name, index, all, filter };
  Kind kind = Kind::all;
  std::string name;
  int64_t index = 0;
  // A filter: selects the items in which `path` exists and, unless `sign` is empty, compares true.
  std::shared_ptr<const Path> path;
  std::string sign;
  Json literal;
};

struct Path {
  bool from_root = false;  // $
  std::vector<PathStep> steps;
};

struct Node {
  enum class Kind { text, path, range };
  Kind kind = Kind::text;
  std::string text;
  Path path;
  std::vector<Node> body;  // of a range
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<Node> read() {
    std::vector<Node> nodes = read_nodes(0);
    if (at_ < text_.size()) refuse("{end} without {range}");
    return nodes;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail("jsonpath, at character {}: {}", at_ + 1, what);
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void need(std::string_view word) {
    if (!take(word)) refuse(fmt::format("{} is missing", word));
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  // Up to the text's end, or the {end} of a range.
  std::vector<Node> read_nodes(int depth) {
    if (depth > kDeepest) refuse("ranges are nested too deeply");
    std::vector<Node> nodes;
    while (at_ < text_.size()) {
      const size_t before = at_;
      if (!take("{")) {
        const size_t end = std::min(text_.find('{', at_), text_.size());
        nodes.push_back({.text = std::string(text_.substr(at_, end - at_))});
        at_ = end;
        continue;
      }
      skip_blanks();
      if (take("end}")) {
        at_ = before;
        break;
      }
      Node node;
      if (take("range ")) {
        skip_blanks();
        node.kind = Node::Kind::range;
        node.path = read_path(depth);
        need("}");
        node.body = read_nodes(depth + 1);
        if (at_ == text_.size()) refuse("{end} is missing");
        at_ = text_.find('}', at_) + 1;
      } else if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
        node.text = read_quoted();
        skip_blanks();
        need("}");
      } else {
        node.kind = Node::Kind::path;
        node.path = read_path(depth);
        need("}");
      }
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  std::string read_quoted() {
    const char quote = text_[at_++];
    std::string result;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      char letter = text_[at_];
      if (letter == '\\' && at_ + 1 < text_.size()) {
        letter = text_[++at_];
        if (letter == 'n') letter = '\n';
        if (letter == 't') letter = '\t';
      }
      result += letter;
    }
    need(std::string_view(&quote, 1));
    return result;
  }

  std::string read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '-' || text_[at_] == '/')) {
      ++at_;
    }
    if (at_ == begin) refuse("expected a name, as in .name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Path read_path(int depth) {
    Path path;
    path.from_root = take("$");
    if (!path.from_root) take("@");
    bool any = path.from_root;
    for (;;) {
      if (take(".")) {
        any = true;
        if (at_ < text_.size() && text_[at_] == '.') refuse("..name is not supported");
        if (take("*")) {
          path.steps.push_back({.kind = PathStep::Kind::all});
        } else if (at_ < text_.size() && (text_[at_] == '}' || text_[at_] == '[')) {
          continue;  // {.} and {.[0]}
        } else {
          path.steps.push_back({.kind = PathStep::Kind::name, .name = read_name()});
        }
      } else if (take("[")) {
        any = true;
        path.steps.push_back(read_bracket(depth));
      } else {
        break;
      }
    }
    skip_blanks();
    if (!any) refuse("a path must begin with a dot, as in {.jobs[*].name}");
    return path;
  }

  PathStep read_bracket(int depth) {
    PathStep step;
    if (take("*]")) return step;
    if (take("?(")) {
      step = read_filter(depth + 1);
      need(")]");
      return step;
    }
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      step = {.kind = PathStep::Kind::name, .name = read_quoted()};
      need("]");
      return step;
    }
    const size_t end = std::min(text_.find(']', at_), text_.size());
    const auto index = try_parse<int64_t>(text_.substr(at_, end - at_));
    if (!index) refuse("brackets take *, a number, a quoted name or ?(...)");
    at_ = end;
    need("]");
    step.kind = PathStep::Kind::index;
    step.index = *index;
    return step;
  }

  PathStep read_filter(int depth) {
    if (depth > kDeepest) refuse("filters are nested too deeply");
    PathStep step;
    step.kind = PathStep::Kind::filter;
    skip_blanks();
    step.path = std::make_shared<Path>(read_path(depth));
    if (take("==")) step.sign = "==";
    if (step.sign.empty() && take("!=")) step.sign = "!=";
    if (step.sign.empty()) return step;
    skip_blanks();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      step.literal = read_quoted();
    } else {
      const size_t end = std::min(text_.find(')', at_), text_.size());
      std::string word(text_.substr(at_, end - at_));
      while (word.ends_with(' ')) word.pop_back();
      const auto number = try_parse<double>(word);
      if (!number && word != "true" && word != "false" && word != "null") {
        refuse("a filter compares with a number, true, false, null or quoted text");
      }
      step.literal = number ? Json(*number) : word == "null" ? Json() : Json(word == "true");
      at_ = end;
    }
    skip_blanks();
    return step;
  }

  std::string_view text_;
  size_t at_ = 0;
};

using Values = std::vector<const Json*>;

Values select(const Path& path, const Json& root, const Json& current);

bool passes(const PathStep& step, const Json& root, const Json& item) {
  const Values found = select(*step.path, root, item);
  if (step.sign.empty()) return !found.empty();
  const bool same = !found.empty() && *found.front() == step.literal;
  return same == (step.sign == "==");
}

void add(const PathStep& step, const Json& root, const Json& value, Values& result) {
  switch (step.kind) {
    case PathStep::Kind::name:
      if (const auto found = value.find(step.name); found != value.end()) {
        result.push_back(&*found);
      }
      break;
    case PathStep::Kind::index: {
      if (!value.is_array()) break;
      const auto size = static_cast<int64_t>(value.size());
      const int64_t index = step.index < 0 ? size + step.index : step.index;
      if (index >= 0 && index < size) result.push_back(&value[static_cast<size_t>(index)]);
      break;
    }
    case PathStep::Kind::all:
    case PathStep::Kind::filter:
      if (!value.is_structured()) break;
      for (const Json& item : value) {
        if (step.kind == PathStep::Kind::all || passes(step, root, item)) result.push_back(&item);
      }
      break;
  }
}

Values select(const Path& path, const Json& root, const Json& current) {
  Values values{path.from_root ? &root : &current};
  for (const PathStep& step : path.steps) {
    Values next;
    for (const Json* value : values) add(step, root, *value, next);
    values = std::move(next);
  }
  return values;
}

void print(const std::vector<Node>& nodes, const Json& root, const Json& current,
           std::string& text) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::text) {
      text += node.text;
      continue;
    }
    bool first = true;
    for (const Json* value : select(node.path, root, current)) {
      if (node.kind == Node::Kind::range) {
        print(node.body, root, *value, text);
        continue;
      }
      if (!first) text += ' ';
      first = false;
      text += value->is_string() ? value->get<std::string>() : dump_json(*value);
    }
  }
}

}  // namespace

std::string json_path_text(const Json& value, std::string_view text) {
  const std::vector<Node> nodes = Reader(text).read();
  std::string result;
  print(nodes, value, value, result);
  return result;
}

}  // namespace adaptdl
