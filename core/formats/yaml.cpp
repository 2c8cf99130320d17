#include "core/formats/yaml.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/formats/yaml_parse.h"

namespace adaptdl {

namespace {

using Kind = YamlValue::Kind;
using Pointer = YamlValue::Pointer;

std::string child_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string bounds_text(const NumberBounds& bounds) {
  const bool from = std::isfinite(bounds.low), to = std::isfinite(bounds.high);
  const std::string low =
      from ? fmt::format("{} {}", bounds.low_excluded ? "above" : "at least", bounds.low) : "";
  const std::string high =
      to ? fmt::format("{} {}", bounds.high_excluded ? "below" : "at most", bounds.high) : "";
  return "a number" + (from ? " " + low : "") + (from && to ? " and" : "") + (to ? " " + high : "");
}

std::string integer_text(int64_t low, int64_t high) {
  const bool from = low != std::numeric_limits<int64_t>::min();
  const bool to = high != std::numeric_limits<int64_t>::max();
  if (from && to) return fmt::format("an integer from {} to {}", low, high);
  if (from) return fmt::format("an integer of at least {}", low);
  if (to) return fmt::format("an integer of at most {}", high);
  return "an integer";
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string suggestion(std::string_view wrong, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(wrong, {names.begin(), names.end()});
  return nearest.empty() ? "" : fmt::format("did you mean {}? ", nearest);
}

// It has no place in a file.
void forget_lines(YamlValue& value) {
  value.line = 0;
  for (const Pointer& item : value.items) forget_lines(*item);
  for (const auto& [key, member] : value.members) forget_lines(*member);
}

Pointer override_value(std::string_view text, const std::string& where, YamlLimits limits) {
  Pointer value;
  if (!text.empty() && std::string_view("[{\"'").find(text[0]) != std::string_view::npos) {
    value = parse_yaml_document(text, where, false, limits);
  } else {
    value = std::make_shared<YamlValue>();
    value->kind = Kind::scalar;
    value->text = text;
    value->quoted = text.empty();  // explicitly empty
  }
  forget_lines(*value);
  value->where = where;
  return value;
}

// The slot for the next part of a path; creates it if allowed.
Pointer& descend(Pointer& parent, const std::string& part, const std::string& where) {
  if (parent->kind == Kind::list) {
    const auto index = try_parse<size_t>(part);
    const size_t size = parent->items.size();
    if (!index || *index > size) {
      fail("{}: '{}' is not an index of that list; give 0 to {} ({} appends)", where, part, size,
           size);
    }
    if (*index == size) parent->items.push_back(nullptr);
    return parent->items[*index];
  }
  if (parent->kind == Kind::scalar) {
    fail("{}: cannot set '{}': its parent is a plain value", where, part);
  }
  parent->kind = Kind::mapping;
  if (Pointer* found = parent->find(part)) return *found;
  return parent->members.emplace_back(part, nullptr).second;
}

void apply_override(Pointer& root, const std::string& text, YamlLimits limits) {
  const std::string where = "--set " + text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail("{}: is not KEY=VALUE, as in optimizer.lr=0.1", where);
  }
  const std::string key = text.substr(0, equals);
  if (std::count(key.begin(), key.end(), '.') >= limits.max_depth) {
    fail("{}: nested more than {} deep", where, limits.max_depth);
  }
  Pointer* place = &root;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    if (end == begin) fail("{}: the key has an empty part", where);
    place = &descend(*place, key.substr(begin, end - begin), where);
    begin = end + 1;
    if (*place == nullptr && begin <= key.size()) {
      *place = std::make_shared<YamlValue>();
      (*place)->kind = Kind::mapping;
      (*place)->where = where;
    }
  }
  *place = override_value(std::string_view(text).substr(equals + 1), where, limits);
}

}  // namespace

bool YamlNode::is_scalar() const {
  return present() && value_->kind == Kind::scalar;
}
bool YamlNode::is_list() const {
  return present() && value_->kind == Kind::list;
}
bool YamlNode::is_mapping() const {
  return present() && value_->kind == Kind::mapping;
}
int YamlNode::line() const {
  return present() ? value_->line : 0;
}

std::string YamlNode::place() const {
  return path_.empty() ? where_ : fmt::format("{}: {}", where_, path_);
}

void YamlNode::refuse(const std::string& problem) const {
  fail("{}: {}", place(), problem);
}

std::string YamlNode::describe() const {
  switch (value_->kind) {
    case Kind::null:
      return "is empty";
    case Kind::list:
      return "is a list";
    case Kind::mapping:
      return "is a mapping";
    case Kind::scalar:
      break;
  }
  const std::string text =
      value_->text.size() > 60 ? value_->text.substr(0, 57) + "..." : value_->text;
  return value_->quoted ? fmt::format("is the text \"{}\"", text) : fmt::format("is {}", text);
}

void YamlNode::wrong(const std::string& expected) const {
  if (!present()) refuse("is missing; it must be " + expected);
  refuse(fmt::format("{}; it must be {}", describe(), expected));
}

const YamlValue& YamlNode::scalar(const char* expected) const {
  if (!is_scalar()) wrong(expected);
  return *value_;
}

std::string YamlNode::text() const {
  return scalar("text").text;
}

int64_t YamlNode::integer(int64_t low, int64_t high) const {
  const std::string expected = integer_text(low, high);
  const YamlValue& value = scalar(expected.c_str());
  check_zero(value, expected);
  const auto number = value.quoted ? std::nullopt : try_parse<int64_t>(value.text);
  if (!number || *number < low || *number > high) wrong(expected);
  return *number;
}

double YamlNode::number(NumberBounds bounds) const {
  const std::string expected = bounds_text(bounds);
  const YamlValue& value = scalar(expected.c_str());
  check_zero(value, expected);
  const auto number = value.quoted ? std::nullopt : try_parse<double>(value.text);
  const bool fits = number && std::isfinite(*number) &&
                    (bounds.low_excluded ? *number > bounds.low : *number >= bounds.low) &&
                    (bounds.high_excluded ? *number < bounds.high : *number <= bounds.high);
  if (!fits) wrong(expected);
  return *number;
}

bool YamlNode::boolean() const {
  const YamlValue& value = scalar("true or false");
  if (!value.quoted && value.text == "true") return true;
  if (!value.quoted && value.text == "false") return false;
  wrong("true or false");
}

void YamlNode::check_zero(const YamlValue& value, const std::string& expected) const {
  if (value.line == 0 || value.quoted || !depends_on_yaml_version(value.text)) return;
  wrong(expected + "; write it without the leading zero, which makes it octal in YAML 1.1");
}

size_t YamlNode::choice(const std::vector<std::string>& names) const {
  const std::string expected = "one of " + joined(names);
  const YamlValue& value = scalar(expected.c_str());
  const auto found = std::find(names.begin(), names.end(), value.text);
  if (found == names.end()) {
    refuse(fmt::format("{}; {}it must be {}", describe(), suggestion(value.text, names), expected));
  }
  return static_cast<size_t>(found - names.begin());
}

std::vector<YamlNode> YamlNode::list(size_t min_items, size_t max_items) const {
  if (!is_list()) wrong("a list");
  const size_t size = value_->items.size();
  if (size < min_items || size > max_items) {
    const std::string most = max_items == std::numeric_limits<size_t>::max()
                                 ? ""
                                 : fmt::format(" and at most {}", max_items);
    refuse(fmt::format("has {} items; allowed are at least {}{}", size, min_items, most));
  }
  std::vector<YamlNode> nodes;
  for (size_t i = 0; i < size; ++i) {
    const Pointer& item = value_->items[i];
    nodes.emplace_back(item, child_path(path_, fmt::format("{}", i)), item->where);
  }
  return nodes;
}

YamlMapping::YamlMapping(const YamlNode& node, bool optional) : node_(node) {
  const bool empty = !node.present() || node.value_->kind == Kind::null;
  if (!node.is_mapping() && !(optional && empty)) node.wrong("a mapping of keys to values");
}

YamlNode YamlMapping::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  const std::string path = child_path(node_.path_, key);
  if (node_.is_mapping()) {
    for (const auto& [name, value] : node_.value_->members) {
      if (name == key) return YamlNode(value, path, value->where);
    }
  }
  return YamlNode(nullptr, path, node_.where_);
}

YamlNode YamlMapping::require(std::string_view key) {
  YamlNode found = find(key);
  if (!found.present()) found.refuse("is missing");
  return found;
}

std::vector<std::string> YamlMapping::keys() const {
  std::vector<std::string> names;
  if (!node_.is_mapping()) return names;
  for (const auto& member : node_.value_->members) names.push_back(member.first);
  return names;
}

bool YamlMapping::read(std::string_view key, std::string& value) {
  const YamlNode found = find(key);
  if (found.present()) value = found.text();
  return found.present();
}

bool YamlMapping::read(std::string_view key, bool& value) {
  const YamlNode found = find(key);
  if (found.present()) value = found.boolean();
  return found.present();
}

bool YamlMapping::read(std::string_view key, double& value, NumberBounds bounds) {
  const YamlNode found = find(key);
  if (found.present()) value = found.number(bounds);
  return found.present();
}

void YamlMapping::finish() const {
  if (!node_.is_mapping()) return;
  for (const auto& [key, value] : node_.value_->members) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const YamlNode unknown(value, child_path(node_.path_, key), value->where);
    unknown.refuse(fmt::format("unknown key; {}known here: {}", suggestion(key, asked_),
                               asked_.empty() ? "none" : joined(asked_)));
  }
}

YamlNode parse_yaml(std::string_view text, const std::string& file,
                    const std::vector<std::string>& overrides, YamlLimits limits) {
  Pointer root = parse_yaml_document(text, file, true, limits);
  for (const std::string& text_of_one : overrides) apply_override(root, text_of_one, limits);
  return YamlNode(root, "", root->where);
}

}  // namespace adaptdl
