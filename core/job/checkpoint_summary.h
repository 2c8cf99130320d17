#pragma once

// What a checkpoint holds, for people: read without LibTorch and without a run.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "core/job/checkpoint_manifest.h"

namespace adaptdl {

// How far a training had got (adaptdl-checkpoint(5), state.progress).
struct CheckpointProgress {
  double iterations = 0;                    // scale-invariant
  int64_t epoch = 0, pass = 0, sample = 0;  // the position in the data: the next sample of a pass
  int64_t skipped = 0;                      // steps
  // The batch of replicas x atomic x passes samples; 0 = not known.
  int64_t batch = 0, replicas = 0, atomic = 0, passes = 0;
  int64_t atomic_limit = 0;  // samples that memory suffices for in one pass; 0 = not known
  double loss_scale = 1;
  std::string precision;      // "" = not known
  nlohmann::json validation;  // newest metrics by name; numbers, or "nan", "inf", "-inf"
};

// Pure. Throws Error for a manifest whose state is not that of a training of this program.
CheckpointProgress progress_of(const CheckpointManifest& manifest, const std::string& what);

struct CheckpointSummary {
  std::string path;
  CheckpointManifest manifest;
  CheckpointProgress progress;
  uint64_t bytes = 0;                // of all tensors
  std::vector<std::string> damages;  // a sentence for each file or tensor that is damaged
  std::vector<bool> intact;          // by tensor
};

// The folders of the checkpoints that `path` names, the newest first: of the checkpoint itself, or
// of those in a run's folder or in its folder of checkpoints. None if `path` is no such folder.
std::vector<std::string> checkpoints_at(const std::string& path);

// The step of the newest checkpoint in a folder of checkpoints, as its name says; -1: there is
// none. Throws Error if the folder cannot be listed.
int64_t newest_checkpoint_step(const std::string& folder);

// When --fresh began the training, in milliseconds since 1970; 0: nothing but its first start did,
// or an earlier version wrote the checkpoint. Pure.
int64_t fresh_at(const CheckpointHeader& header);

// Reads the folder's manifest. Throws Error if it is damaged or cannot be read.
CheckpointManifest read_checkpoint_manifest(const std::string& folder);

// Reads everything in the folder, tensors too. Throws Error if the manifest is damaged or cannot be
// read, and Cancelled.
CheckpointSummary inspect_checkpoint(const std::string& folder,
                                     const Cancellation* cancelled = nullptr);

}  // namespace adaptdl
