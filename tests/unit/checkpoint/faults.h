#pragma once

// A file system that lacks something, or fails, for the tests of the store.

#include <functional>
#include <string>

namespace adaptdl::test {

// While it lives, folders cannot be exchanged (as on NFS), and each rename first asks `on_rename`,
// if there is one, for the errno to fail with; 0 renames. One at a time; for one thread.
class NoExchange {
 public:
  using OnRename = std::function<int(const std::string& from, const std::string& to)>;
  explicit NoExchange(OnRename on_rename = nullptr);
  NoExchange(const NoExchange&) = delete;
  ~NoExchange();
};

// Runs `body` in a child process that must respect the permission bits, as root too; its result, or
// false when it throws or dies.
bool without_privileges(const std::function<bool()>& body);

}  // namespace adaptdl::test
