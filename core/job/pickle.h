#pragma once

// Reads the pickles that LibTorch writes (protocol 2) as a tree of values. It never calls or
// imports anything: a call becomes a node with the name of the callee. Safe for hostile files:
// bounded memory, linear time, no recursion.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct PickleValue {
  enum class Kind {
    none,
    boolean,     // integer 0 or 1
    integer,     // integer, at most 64 bits
    real,        // real
    text,        // text
    global,      // text: "MODULE\nNAME"
    tuple,       // items
    list,        // items
    dict,        // items: key, value, key, value, ...
    call,        // items: the callee, its arguments, state or dict entries that followed
    object,      // items: class, arguments of __new__, state (if any)
    persistent,  // items: the reference, for storages a tuple
  };
  using Index = uint32_t;

  Kind kind = Kind::none;
  int64_t integer = 0;
  double real = 0.0;
  std::string_view text;     // into the pickle's bytes
  std::vector<Index> items;  // of PickleTree::at; cycles are possible
};

// Constant after construction; borrows the bytes.
class PickleTree {
 public:
  // Throws Error "WHAT: byte N: ..." for anything but a whole pickle of the opcodes that LibTorch
  // uses, and for more than `max_values` values.
  PickleTree(std::string_view bytes, const std::string& what, size_t max_values = 1'000'000);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& at(PickleValue::Index index) const { return values_[index]; }

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  PickleValue::Index root_ = 0;
};

}  // namespace adaptdl
