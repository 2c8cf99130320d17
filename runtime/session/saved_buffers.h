#pragma once

// The program's buffers as they were before a step, so that a step that is skipped, or repeated
// because the group broke, leaves no trace in them (a running mean that became NaN stays NaN).
//
// Tensors that steps leave alone (masks, tables) are not copied: after the first step that is kept,
// only those are that some step has changed. A tensor that changes for the first time later, in a
// step that is undone, keeps that one change.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/program.h"

namespace adaptdl {

// For the training thread. Borrows the program.
class SavedBuffers {
 public:
  explicit SavedBuffers(Program& program) : program_(program) {}

  void save();     // before a step; an unfinished one is undone first
  void keep();     // the step is applied
  void restore();  // undoes the step, if there is one

 private:
  struct Buffer {
    at::Tensor tensor;  // the program's, at save()
    int64_t version = 0;
    bool changes = true;
    at::Tensor copy;  // undefined unless it changes
  };

  Program& program_;
  std::vector<Buffer> buffers_;
  bool none_ = false;  // the program has no buffers
  bool saved_ = false;
  bool learned_ = false;  // which ones change
};

}  // namespace adaptdl
