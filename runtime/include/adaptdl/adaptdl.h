#pragma once

// The runtime library for LibTorch programs that train elastically: everything a program needs.
//
//   #include <adaptdl/adaptdl.h>
//
//   class MyModel : public adaptdl::Program { ... };            // parameters, training_step
//
//   int main() {
//     return adaptdl::run_program(R"(
//       data: {train: [{path: images.npy}, {path: labels.npy}]}
//       batch: {initial: 64, adaptive: true, max: 1024}
//       optimizer: {kind: sgd, lr: 0.1}
//       epochs: 10
//     )", [](const adaptdl::ProgramContext& context) {
//       return std::make_unique<MyModel>(context.device);
//     });
//   }
//
// Build it with
//   c++ -std=c++20 my-program.cpp $(pkg-config --cflags --libs adaptdl-runtime)
// and run it with `adaptdl run ./my-program --replicas 1:4`. Started without adaptdl, it trains as
// a single replica, reads its data from the working directory and writes model.pt there;
// checkpoints are kept in $ADAPTDL_CHECKPOINT_PATH, if that is set.
//
// A program that keeps its own loop includes adaptdl/training.h, which is here, too.

#include "adaptdl/collective.h"
#include "adaptdl/env.h"
#include "adaptdl/map_dataset.h"
#include "adaptdl/named_tensor.h"
#include "adaptdl/optimizer.h"
#include "adaptdl/program.h"
#include "adaptdl/program_data.h"
#include "adaptdl/run_program.h"
#include "adaptdl/stream_dataset.h"
#include "adaptdl/training.h"
#include "adaptdl/version.h"
