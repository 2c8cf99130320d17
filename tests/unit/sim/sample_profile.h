#pragma once

#include "core/sim/profiles/profile.h"

namespace adaptdl {

// Two nodes of two GPUs, three batches, two epochs. Steps take samples / 100 seconds, and half as
// much for synchronisation on two GPUs or more.
inline ProfileData sample_profile() {
  ProfileData data;
  data.application = "sample";
  for (const Placement& gpus : {Placement{1}, {2}, {1, 1}, {1, 2}, {2, 2}}) {
    for (const int64_t atomic : {10, 20, 40}) {
      const double step = static_cast<double>(atomic) / 100;
      data.placements.push_back({gpus, atomic, {step, gpus == Placement{1} ? 0 : step / 2}});
    }
  }
  data.runs = {{20, {{100, 100, {4, 8}}, {200, 200, {2, 8}}}},
               {80, {{102, 40, {6, 4}}, {199, 70, {2, 4}}}}};
  return data;
}

}  // namespace adaptdl
