#pragma once

// What programs did to the files below one folder, in the order in which it happened: the recorder
// (recorder.cpp) appends it, replay.h reads it. Files and folders are named by their inode numbers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace power {

enum class Op : uint32_t {
  root,          // the folder itself: inode
  create,        // inode, folder, name: an empty file
  make_folder,   // inode, folder, name
  make_symlink,  // inode, folder, name, text: its target
  link,          // inode, folder, name
  remove,        // folder, name: a file, a symlink or an empty folder
  rename,        // folder, name -> folder2, text; number: flags of renameat2(2)
  write,         // inode, number: offset, text: data
  truncate,      // inode, number: size
  sync,          // inode: of a file or a folder
  sync_all,      // the file system
  map,           // inode: mapped shared and writable
  mark,          // text: what the test says
};

struct Record {
  Op op = Op::mark;
  uint64_t inode = 0, folder = 0, folder2 = 0;
  int64_t number = 0;
  std::string name, text;
};

// Appends one record; other processes append whole ones, too. For a holder of the log's lock
// (Turn).
void append(int log, const Record& record);

// All records of a log. Throws std::runtime_error.
std::vector<Record> read_log(const std::string& path);

// The turn to act and to append: one thread of one process at a time. `log` is -1 without a log.
class Turn {
 public:
  explicit Turn(const char* log_path);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  const int log;
};

// Adds a mark to the log named by POWER_LOG, if there is one.
void mark(std::string_view text);

// Calls to fail, in a file that the test and the recorded programs map (POWER_CONTROL).
struct Control {
  static constexpr uint32_t kWrite = 1, kSync = 2, kClose = 4, kRename = 8, kOpen = 16,
                            kFolder = 32, kRemove = 64, kTruncate = 128;
  uint32_t kinds = 0;     // which calls are counted
  int32_t countdown = 0;  // the call that makes it 0 fails; 0: none does
  int32_t error = 0;      // errno; 0: the process is killed before the call
  uint32_t lasting = 0;   // 1: the later ones, too
  uint32_t hits = 0;      // calls that failed
};

// Maps POWER_CONTROL, or returns null if it is not set.
Control* map_control();

}  // namespace power
