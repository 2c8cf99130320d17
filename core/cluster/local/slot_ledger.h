#pragma once

// Which job may use which slot of this machine: a GPU, or without GPUs, a core. A preempted slot
// belongs to its old job until that job has released it, so that two jobs never train on one slot.

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
  // Marks the slots of a job that was found running; skips slots out of range or of another job.
  void hold(const std::string& job, const std::vector<int>& slots);
  // Frees all slots of the job except those in `kept`.
  void keep_only(const std::string& job, const std::vector<int>& kept);

 private:
  std::vector<std::string> owners_;  // "": free
};

}  // namespace adaptdl::local
