#include "core/launch/command/pickle_refusal.h"

#include <doctest/doctest.h>
#include <string>

using adaptdl::launch::refused_own_pickle;

namespace {

std::string frame(const std::string& file, const std::string& function) {
  return "  File \"" + file + "\", line 12, in " + function + "\n    call()\n    ^^^^^^\n";
}

const std::string kBegin = "Traceback (most recent call last):\n";
const std::string kProgram = frame("/home/me/train, again.py", "<module>");
const std::string kRestores = frame("/usr/lib/python3/adaptdl/checkpoint.py", "load_state");
const std::string kParallel = frame("/usr/lib/python3/adaptdl/torch/parallel.py", "load");
const std::string kTorch = frame("/usr/lib/python3/torch/serialization.py", "load");
const std::string kError =
    "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded.\n"
    "\t(1) In PyTorch 2.6, ...\n";

}  // namespace

TEST_CASE("pickle refusal: of AdaptDL's own checkpoint") {
  const std::string frames = kProgram + kRestores + kParallel + kTorch;
  CHECK(refused_own_pickle(kBegin + frames + kError));
  CHECK(refused_own_pickle("epoch 3\n" + kBegin + frames + kError + "sys:1: ResourceWarning\n"));
  // A state of the program's own, in AdaptDL's checkpoint.
  CHECK(refused_own_pickle(kBegin + kRestores + frame("/home/me/state.py", "load") + kTorch +
                           kError));
  // Its beginning is cut off, as in a pod's status.
  CHECK(refused_own_pickle("in load_state\n    state.load(f)\n" + kParallel + kTorch + kError));
  std::string ranked = kBegin + frames + kError;
  for (size_t at = 0; at != std::string::npos; at = ranked.find('\n', at + 12)) {
    ranked.insert(at == 0 ? 0 : at + 1, "[rank10]: ");
  }
  CHECK(refused_own_pickle(ranked));
}

TEST_CASE("pickle refusal: not of other files, nor of other errors") {
  CHECK(!refused_own_pickle(""));
  CHECK(!refused_own_pickle(kError));
  CHECK(!refused_own_pickle(kBegin + kProgram + kTorch + kError));
  CHECK(!refused_own_pickle(kBegin + kRestores + kParallel + kTorch + "MemoryError\n"));
  // A data set that AdaptDL's loader iterates.
  CHECK(!refused_own_pickle(kBegin + kProgram +
                            frame("/usr/lib/python3/adaptdl/torch/data.py", "__iter__") +
                            frame("/home/me/images.py", "__getitem__") + kTorch + kError));
  // The model's own hooks run below parallel.py.
  CHECK(!refused_own_pickle(kBegin + kParallel + frame("/home/me/model.py", "forward") + kTorch +
                            kError));
  // An earlier traceback, of something that was caught.
  CHECK(!refused_own_pickle(kBegin + kRestores + kParallel + "OSError\n" + kBegin + kProgram +
                            kTorch + kError));
  CHECK(!refused_own_pickle("File \"File \", in\n" + kError));
}
