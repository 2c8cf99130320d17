#pragma once

// Results that survive a power cut from the moment that they are announced.

#include <string>
#include <string_view>
#include <sys/types.h>

#include "core/base/fd.h"

namespace adaptdl {

// Makes the file's content durable and closes it, checking both: some file systems report a failed
// write only here. `path` names the file in the Error.
void sync_and_close(Fd file, const std::string& path);

// As make_directories(), and makes the names of the folder and of its parents durable. Takes a few
// waits for the disk: call it once for a folder, not for each file in it.
void make_durable_directories(const std::string& path, mode_t mode = 0777);

// A new file that replaces `path` as a whole: until commit() returns, a reader, and the disk after
// a power cut, has the old content or none. It is written beside `path` under a fixed name, so that
// a killed writer leaves at most one partial file, which the next one replaces. One writer at a
// time.
class DurableFile {
 public:
  // Throws Error if the file cannot be created. `mode` is subject to the umask.
  explicit DurableFile(std::string path, mode_t mode = 0666);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();  // removes the partial file unless commit() has renamed it

  void write(std::string_view bytes);
  // Syncs, closes and renames the file, then syncs its folder. Call it once. If it throws Error,
  // the new content may be at `path`, but whole.
  void commit();

 private:
  std::string path_, part_;
  Fd file_;
};

// The name beside `path` under which a DurableFile is written: `path`.part.
std::string part_path(const std::string& path);

// Renames part_path(path), which another library has written, to `path`, as DurableFile::commit().
void commit_part(const std::string& path);

}  // namespace adaptdl
