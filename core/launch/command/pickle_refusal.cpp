#include "core/launch/command/pickle_refusal.h"

#include <algorithm>

namespace adaptdl::launch {

namespace {

struct Frame {
  std::string_view file, function;
};

// The next frame of a Python traceback from `from` on, which is moved behind it:
//   File "/a/b.py", line 7, in load
// torch.distributed may have put "[rank0]:" before each line.
bool next_frame(std::string_view text, size_t& from, Frame& frame) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ", kIn = ", in ";
  const size_t start = text.find(kFile, from);
  if (start == std::string_view::npos) return false;
  const size_t name = start + kFile.size();
  const size_t end = std::min(text.find('\n', name), text.size());
  const std::string_view line = text.substr(name, end - name);
  from = end;
  const size_t quote = line.find(kLine), in = line.rfind(kIn);
  frame = {};
  if (quote == std::string_view::npos || in == std::string_view::npos) return true;
  frame = {line.substr(0, quote), line.substr(in + kIn.size())};
  return true;
}

}  // namespace

bool refused_own_pickle(std::string_view output) {
  const size_t error = output.rfind("UnpicklingError: Weights only load failed");
  if (error == std::string_view::npos) return false;
  // Without its first line where only the last part is known.
  const size_t traceback = output.rfind("Traceback (most recent call last)", error);
  const size_t begin = traceback == std::string_view::npos ? 0 : traceback;
  const std::string_view frames = output.substr(begin, error - begin);
  size_t from = 0;
  bool restores = false;
  Frame frame;
  std::string_view caller;  // of the last call into torch/serialization.py
  while (next_frame(frames, from, frame)) {
    restores |= frame.file.ends_with("/adaptdl/checkpoint.py") && frame.function == "load_state";
    if (!frame.file.ends_with("/torch/serialization.py")) caller = frame.file;
  }
  return restores || caller.ends_with("/adaptdl/torch/parallel.py");
}

}  // namespace adaptdl::launch
