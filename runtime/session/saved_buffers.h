#pragma once

// The program's buffers and its own state as they were before a step, so that a step that is
// skipped, or repeated because the group broke, leaves no trace in them (a running mean that became
// NaN stays NaN).
//
// Small buffers (running statistics, counters) are copied before every step. A large one that
// several kept steps have left alone (a mask, a table) no longer is, until autograd's count of its
// changes grows. That count alone does not tell: normalisation over a batch writes its running
// statistics without raising it. A large tensor that changes for the first time later, in a step
// that is undone, keeps that one change.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/program.h"

namespace adaptdl {

// For the training thread. Borrows the program.
class SavedBuffers {
 public:
  static constexpr size_t kSmall = size_t{1} << 16;  // bytes; a copy takes microseconds
  static constexpr int kStill = 8;  // kept steps without a change, after which a large one rests

  // `always`: copies all buffers before each step, large ones too.
  explicit SavedBuffers(Program& program, bool always = false)
      : program_(program), always_(always) {}

  void save();     // before a step; an unfinished one is undone first
  void keep();     // the step is applied
  void restore();  // undoes the step, if there is one

  // Only with `always`, during a step: undoes what it has changed so far, and it goes on.
  void rewind();
  bool none() const { return none_; }  // the program has no buffers
  const at::Tensor& before(size_t buffer) const { return buffers_[buffer].copy; }

 private:
  struct Buffer {
    at::Tensor tensor;  // the program's, at save()
    int64_t version = 0;
    bool changes = false;  // it has changed
    int still = 0;         // kept steps that left it alone, while it has not
    at::Tensor copy;       // undefined if there is none

    bool copied(bool always) const;
  };

  void write_back();

  Program& program_;
  const bool always_;
  std::string state_;  // the program's
  std::vector<Buffer> buffers_;
  bool none_ = false;  // the program has no buffers
  bool saved_ = false;
};

}  // namespace adaptdl
