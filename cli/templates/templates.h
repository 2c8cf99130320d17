#pragma once

// The working examples that `adaptdl init` writes. They are embedded in the binary, so that a build
// without LibTorch has them too. Thread-safe.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::templates {

struct Template {
  std::string_view name;     // "digits"
  std::string_view summary;  // one line
  bool takes_text;           // whether it uses Options::text_files
  bool is_archive;           // else a program, which is built first
};

std::span<const Template> all();

// nullptr if no example has this name.
const Template* find(std::string_view name);

struct Options {
  // chars: the files to learn from, concatenated; at most 256 MiB in total. Empty: about 1 MiB of
  // the licence texts under /usr/share/common-licenses and /usr/share/licenses; Error if there are
  // none.
  std::vector<std::string> text_files;
  bool meson = false;  // library: built by Meson, else by CMake
  bool force = false;  // replace existing files
};

struct Written {
  std::vector<std::string> files;  // names in the folder, in display order
  std::string about;               // what it contains, one sentence ("1797 images ...")
};

// Writes the example into `folder`, which is created if missing: train.pt, its data, adaptdl.yaml,
// model.py; or train.cpp, its data, and a file for building it. Throws Error, before writing
// anything, if one of them exists and `force` is off, or if the text is missing or too short.
// Requires: find(name).
Written write(std::string_view name, const std::string& folder, const Options& options = {});

}  // namespace adaptdl::templates
