// A model that was announced is there, and whatever has a model's name is whole.

#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <span>
#include <sstream>

#include "core/base/crypto.h"
#include "core/base/files.h"
#include "core/job/weights_file.h"
#include "tests/power/subject.h"

namespace power {
namespace {

constexpr size_t kMostModelBytes = 64u << 20;

class Models : public Subject {
 public:
  void mark(const std::string& text) override {
    std::istringstream words(text);
    std::string when, file;
    words >> when >> file;
    Content& content = told_[file];
    content.told = when == "done";
    words >> content.sha256;
  }

  std::string check(const std::string& tree) override {
    for (const auto& [file, content] : told_) {
      const std::string path = tree + "/" + file;
      if (!adaptdl::path_exists(path)) {
        if (content.told) return file + " was announced, but does not exist";
        continue;
      }
      adaptdl::open_weights(path);  // throws if it is not whole
      if (!content.told) continue;
      const std::string bytes = adaptdl::read_file(path, kMostModelBytes);
      const std::span digits(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      if (adaptdl::to_hex(adaptdl::sha256(digits)) != content.sha256) {
        return file + " is not what was announced";
      }
    }
    return "";
  }

 private:
  struct Content {
    bool told = false;
    std::string sha256;  // in hexadecimal digits
  };
  std::map<std::string, Content> told_;
};

}  // namespace

std::unique_ptr<Subject> model_subject() {
  return std::make_unique<Models>();
}

}  // namespace power
