#pragma once

// Which job may use which slot of this machine: a GPU, or without any, a core. A slot that was
// taken back stays its old job's until that has let go of it, so that two jobs never train on one.

#include <string>
#include <vector>

namespace adaptdl::local {

// One thread.
class SlotLedger {
 public:
  explicit SlotLedger(int count) : owners_(static_cast<size_t>(count)) {}

  int count() const { return static_cast<int>(owners_.size()); }
  int free() const;
  std::vector<int> held_by(const std::string& job) const;  // ascending

  // The lowest free slots. Requires: count <= free().
  std::vector<int> take(const std::string& job, int count);
  // A job that was found running has these; those out of range, or another's, are left out.
  void hold(const std::string& job, const std::vector<int>& slots);
  // All that the job holds but for those in `kept`.
  void keep_only(const std::string& job, const std::vector<int>& kept);

 private:
  std::vector<std::string> owners_;  // "": free
};

}  // namespace adaptdl::local
