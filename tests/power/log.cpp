#include "tests/power/log.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace power {
namespace {

struct Header {
  Op op;
  uint32_t name, text;  // bytes
  uint32_t unused = 0;
  uint64_t inode, folder, folder2;
  int64_t number;
};

// System calls themselves: the recorder stands in for the C library's functions.
int open_log(const char* path) {
  if (path == nullptr) return -1;
  return static_cast<int>(
      ::syscall(SYS_openat, long{AT_FDCWD}, path, long{O_WRONLY | O_APPEND | O_CLOEXEC}, 0L));
}

}  // namespace

void append(int log, const Record& record) {
  const Header header = {record.op,
                         static_cast<uint32_t>(record.name.size()),
                         static_cast<uint32_t>(record.text.size()),
                         0,
                         record.inode,
                         record.folder,
                         record.folder2,
                         record.number};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += record.name;
  bytes += record.text;
  const long put = ::syscall(SYS_write, long{log}, bytes.data(), bytes.size());
  if (put != static_cast<long>(bytes.size())) ::abort();  // a log with gaps would prove nothing
}

std::vector<Record> read_log(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot read");
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<Record> records;
  for (size_t at = 0; at < bytes.size();) {
    Header header{};
    if (bytes.size() - at < sizeof header) throw std::runtime_error(path + ": torn");
    std::memcpy(&header, bytes.data() + at, sizeof header);
    at += sizeof header;
    if (bytes.size() - at < uint64_t{header.name} + header.text) {
      throw std::runtime_error(path + ": torn");
    }
    records.push_back({header.op, header.inode, header.folder, header.folder2, header.number,
                       bytes.substr(at, header.name), bytes.substr(at + header.name, header.text)});
    at += header.name + header.text;
  }
  return records;
}

Turn::Turn(const char* log_path) : log(open_log(log_path)) {
  if (log >= 0) ::syscall(SYS_flock, long{log}, long{LOCK_EX});
}

Turn::~Turn() {
  if (log < 0) return;
  // Closing is not enough: a process forked meanwhile holds the same lock until it starts a
  // program.
  ::syscall(SYS_flock, long{log}, long{LOCK_UN});
  ::syscall(SYS_close, long{log});
}

void mark(std::string_view text) {
  const Turn turn(std::getenv("POWER_LOG"));
  if (turn.log >= 0) append(turn.log, {.op = Op::mark, .name = "", .text = std::string(text)});
}

Control* map_control() {
  const char* path = std::getenv("POWER_CONTROL");
  if (path == nullptr) return nullptr;
  const int fd =
      static_cast<int>(::syscall(SYS_openat, long{AT_FDCWD}, path, long{O_RDWR | O_CLOEXEC}, 0L));
  if (fd < 0) return nullptr;
  void* const page = reinterpret_cast<void*>(::syscall(
      SYS_mmap, 0L, sizeof(Control), long{PROT_READ | PROT_WRITE}, long{MAP_SHARED}, long{fd}, 0L));
  ::syscall(SYS_close, long{fd});
  return page == MAP_FAILED ? nullptr : static_cast<Control*>(page);
}

}  // namespace power
