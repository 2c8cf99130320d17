#pragma once

// Finds replicas whose parameters or optimizer state are no longer bitwise those of the others (a
// memory error, another processor). In every step each replica sends the digest of one share of
// them, another share in the next step.
//
// Bound: there are at most kShares shares, so a difference that stays is found within kShares
// steps. Cost: a share is a thousandth of the state (or 4 KiB), and a step reads and writes all of
// it several times: less than 0.1 % of a step.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "adaptdl/named_tensor.h"

namespace adaptdl {

// For the training thread. Members that make the same calls at the same steps digest the same
// share.
class StateDigest {
 public:
  static constexpr int64_t kShares = 1000;      // at most
  static constexpr int64_t kLeastBytes = 4096;  // of a share

  // `tensors` returns the state, the same list on all replicas.
  explicit StateDigest(std::function<std::vector<NamedTensor>()> tensors)
      : tensors_(std::move(tensors)) {}

  // Of the share that belongs to `step` (>= 0). Members with the same bits there get the same
  // number; others almost surely another one, and surely if only eight aligned bytes of the share
  // differ.
  uint64_t of(int64_t step);

  // The tensors in the share that belongs to `step`.
  std::vector<std::string> names(int64_t step);

  // Forgets the list of tensors, which may have changed; call it on all members at once.
  void forget() { parts_.clear(); }

 private:
  struct Part {
    NamedTensor named;
    int64_t begin = 0, end = 0;  // in the concatenation of all tensors' bytes
  };
  struct Range {
    int64_t begin = 0, end = 0;
  };
  Range share(int64_t step);
  int64_t shares() const;

  const std::function<std::vector<NamedTensor>()> tensors_;
  std::vector<Part> parts_;
};

// Of the tensors' names, types, shapes and bytes: a word that almost surely differs for others. ""
// if there are none.
std::string fingerprint(const std::vector<NamedTensor>& tensors);

// The ranks whose entry differs from that of the largest group of equal entries; of equally large
// groups, from that of the group with the lowest rank. Pure.
std::vector<int> minority(std::span<const uint64_t> entries);

}  // namespace adaptdl
