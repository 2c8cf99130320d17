#include "runtime/data/spill.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::data {
namespace {

// Writes to the file have this size.
constexpr size_t kPiece = 4u << 20;

Fd nameless_file(const std::string& what) {
  const char* variable = std::getenv("TMPDIR");
  const std::string folder = variable != nullptr && *variable != '\0' ? variable : "/var/tmp";
  std::string name = join_path(folder, "adaptdl-XXXXXX");
  Fd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file) {
    fail_errno(errno,
               fmt::format("{}: cannot create a temporary file in {} (TMPDIR sets the folder)",
                           what, folder));
  }
  unlink(name.c_str());
  return file;
}

}  // namespace

Spill::Spill(std::string what, size_t threshold) : what_(std::move(what)), threshold_(threshold) {}

void Spill::append(std::span<const std::byte> bytes) {
  memory_.insert(memory_.end(), bytes.begin(), bytes.end());
  if (file_ ? memory_.size() >= kPiece : memory_.size() > threshold_) flush();
}

void Spill::flush() {
  if (!file_) file_ = nameless_file(what_);
  write_all(file_.get(), {reinterpret_cast<const char*>(memory_.data()), memory_.size()},
            what_ + ": temporary file in TMPDIR");
  written_ += memory_.size();
  std::vector<std::byte>().swap(memory_);
}

Spill::Result Spill::finish() {
  if (!file_) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(memory_));
    return {*owner, owner};
  }
  flush();
  const size_t size = written_;
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (data == MAP_FAILED) fail_errno(errno, what_ + ": cannot map the temporary file");
  file_.reset();
  std::shared_ptr<const void> owner(data, [size](void* mapped) { munmap(mapped, size); });
  return {{static_cast<const std::byte*>(data), size}, owner};
}

}  // namespace adaptdl::data
