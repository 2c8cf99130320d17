#include "core/job/pickle.h"

#include <bit>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {

using ValueKind = PickleValue::Kind;
using Index = PickleValue::Index;

class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& what, size_t max_values,
               std::vector<PickleValue>& values)
      : bytes_(bytes), what_(what), max_values_(max_values), values_(values) {}

  Index run() {
    if (byte() != 0x80 || byte() != 2) refuse("is not a pickle of protocol 2");
    for (;;) {
      const uint8_t opcode = byte();
      if (opcode == '.') {
        if (stack_.size() != 1 || !marks_.empty())
          refuse("the stack does not hold exactly one value at the end");
        return pop();
      }
      step(opcode);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail("{}: byte {}: {}", what_, position_, problem);
  }

  std::string_view take(size_t size) {
    if (size > bytes_.size() - position_) refuse("the file ends too early");
    const std::string_view taken = bytes_.substr(position_, size);
    position_ += size;
    return taken;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  uint64_t little_endian(size_t size) {
    uint64_t number = 0;
    const std::string_view bytes = take(size);
    for (size_t i = 0; i < size; ++i) number |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return number;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) refuse("the file ends too early");
    const std::string_view text = bytes_.substr(position_, end - position_);
    position_ = end + 1;
    return text;
  }

  Index make(PickleValue value) {
    if (values_.size() >= max_values_) refuse(fmt::format("more than {} values", max_values_));
    values_.push_back(std::move(value));
    return static_cast<Index>(values_.size() - 1);
  }
  void push(PickleValue value) { stack_.push_back(make(std::move(value))); }
  void push_integer(int64_t number) { push({.kind = ValueKind::integer, .integer = number}); }

  Index pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) refuse("takes a value from an empty stack");
    const Index value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) refuse("closes a list that was not opened");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> values(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return values;
  }

  void tuple(size_t size) {
    std::vector<Index> items(size);
    for (size_t i = size; i-- > 0;) items[i] = pop();
    push({.kind = ValueKind::tuple, .items = std::move(items)});
  }

  // The value on top of the stack, to add items to.
  PickleValue& grow(std::initializer_list<ValueKind> kinds) {
    const Index index = pop();
    stack_.push_back(index);
    PickleValue& value = values_[index];
    for (const ValueKind kind : kinds) {
      if (value.kind == kind) return value;
    }
    refuse("adds items to a value that cannot hold any");
  }
  void extend(std::initializer_list<ValueKind> kinds, const std::vector<Index>& items) {
    PickleValue& value = grow(kinds);
    value.items.insert(value.items.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<Index>& items) {
    if (items.size() % 2 != 0) refuse("has a key without a value");
    extend({ValueKind::dict, ValueKind::call}, items);
  }

  void pair(ValueKind kind) {
    const Index arguments = pop();
    const Index callee = pop();
    if (values_[callee].kind != ValueKind::global) refuse("calls a value that is not a name");
    push({.kind = kind, .items = {callee, arguments}});
  }

  void remember(uint64_t key) {
    if (stack_.empty()) refuse("takes a value from an empty stack");
    memo_[key] = stack_.back();
  }
  void recall(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse("refers to a missing value");
    stack_.push_back(found->second);
  }

  void long_integer() {
    const size_t size = byte();
    if (size > 8) refuse("has an integer of more than 64 bits");
    uint64_t number = little_endian(size);
    if (size > 0 && size < 8 && (number >> (8 * size - 1)) != 0)
      number |= ~uint64_t{0} << (8 * size);
    push_integer(static_cast<int64_t>(number));
  }

  void global() {
    const size_t start = position_;
    const std::string_view module = line();
    const std::string_view name = line();
    // "MODULE\nNAME" in place, without a copy.
    push(
        {.kind = ValueKind::global, .text = bytes_.substr(start, module.size() + 1 + name.size())});
  }

  void step(uint8_t opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return;
      case ')':
        return tuple(0);
      case 't':
        return push({.kind = ValueKind::tuple, .items = pop_to_mark()});
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(opcode - size_t{0x84});
      case ']':
        return push({.kind = ValueKind::list});
      case '}':
        return push({.kind = ValueKind::dict});
      case 'a': {
        const Index item = pop();
        return extend({ValueKind::list}, {item});
      }
      case 'e': {
        const auto items = pop_to_mark();
        return extend({ValueKind::list}, items);
      }
      case 's': {
        const Index value = pop();
        const Index key = pop();
        return set_items({key, value});
      }
      case 'u': {
        const auto items = pop_to_mark();
        return set_items(items);
      }
      case 'c':
        return global();
      case 'R':
        return pair(ValueKind::call);
      case 0x81:
        return pair(ValueKind::object);
      case 'b': {
        const Index state = pop();
        return extend({ValueKind::object, ValueKind::call}, {state});
      }
      case 'Q':
        return push({.kind = ValueKind::persistent, .items = {pop()}});
      case 'q':
        return remember(byte());
      case 'r':
        return remember(little_endian(4));
      case 'h':
        return recall(byte());
      case 'j':
        return recall(little_endian(4));
      case 'X':
      case 'T':
        return push({.kind = ValueKind::text, .text = take(little_endian(4))});
      case 'U':
        return push({.kind = ValueKind::text, .text = take(byte())});
      case 'K':
        return push_integer(byte());
      case 'M':
        return push_integer(static_cast<int64_t>(little_endian(2)));
      case 'J':
        return push_integer(static_cast<int32_t>(little_endian(4)));
      case 0x8a:
        return long_integer();
      case 'G':  // the one number that is big-endian
        return push({.kind = ValueKind::real,
                     .real = std::bit_cast<double>(__builtin_bswap64(little_endian(8)))});
      case 0x88:
      case 0x89:
        return push({.kind = ValueKind::boolean, .integer = opcode == 0x88});
      case 'N':
        return push({.kind = ValueKind::none});
      default:
        --position_;
        refuse(fmt::format("the operation {:#04x} is not one that LibTorch writes", opcode));
    }
  }

  const std::string_view bytes_;
  const std::string& what_;
  const size_t max_values_;
  std::vector<PickleValue>& values_;
  size_t position_ = 0;
  std::vector<Index> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, Index> memo_;
};

PickleTree::PickleTree(std::string_view bytes, const std::string& what, size_t max_values) {
  root_ = PickleReader(bytes, what, max_values, values_).run();
}

}  // namespace adaptdl
