#pragma once

// The working examples that `adaptdl init` writes. Everything is compiled in, so that a build
// without LibTorch has them too. Thread-safe.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::templates {

struct Template {
  std::string_view name;     // "digits"
  std::string_view summary;  // one line
  bool takes_text;           // Options::text_files matters
};

std::span<const Template> all();

// nullptr if there is none of this name.
const Template* find(std::string_view name);

struct Options {
  // chars: the files to learn from, one after the other; at most 256 MiB together. Empty: the
  // licence texts installed under /usr/share/common-licenses and /usr/share/licenses, about 1 MiB
  // of them; an Error if there are none.
  std::vector<std::string> text_files;
  bool force = false;  // replace files that are there
};

struct Written {
  std::vector<std::string> files;  // names in the folder, in the order to be shown
  std::string about;               // what it is made of, one sentence ("1797 images ...")
};

// Writes the example into `folder`, which is created if missing: train.pt, its data, adaptdl.yaml,
// model.py. Throws Error, before anything is written, if one of them is there already and `force`
// is off, or if the text is missing or too short. Requires: find(name).
Written write(std::string_view name, const std::string& folder, const Options& options = {});

}  // namespace adaptdl::templates
