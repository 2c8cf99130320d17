#pragma once

// Which job may use which slot of this machine: a GPU, or without GPUs, a core. A preempted slot
// belongs to its old job until that job has released it, so that two jobs never train on one slot.

#include <string>
#include <vector>

namespace adaptdl::local {

// One thread.
class SlotLedger {
 public:
  // `kinds`: of each slot, if they are of several (Machine::slot_kinds); none: all are of kind 0.
  explicit SlotLedger(int count, std::vector<int> kinds = {});

  int count() const { return static_cast<int>(owners_.size()); }
  int free() const;
  int free(int kind) const;
  // Slots of that kind that `job` may get besides `granted`: those that are free, and its own that
  // it is giving up.
  std::vector<int> available(const std::string& job, const std::vector<int>& granted,
                             int kind) const;
  std::vector<int> held_by(const std::string& job) const;  // ascending
  // Those of `slots` that are of this kind.
  std::vector<int> of_kind(const std::vector<int>& slots, int kind) const;
  int kind_of(int slot) const { return kinds_.at(static_cast<size_t>(slot)); }
  const std::string& owner(int slot) const { return owners_.at(static_cast<size_t>(slot)); }

  // The first `count` of available(): the lowest free ones, then its own, which it has not left
  // yet; its own first if it moves back to them. Requires: there are so many.
  std::vector<int> take(const std::string& job, int count, int kind = 0,
                        const std::vector<int>& granted = {});
  // Marks the slots of a job that was found running; skips slots out of range or of another job.
  void hold(const std::string& job, const std::vector<int>& slots);
  // Frees all slots of the job except those in `kept`.
  void keep_only(const std::string& job, const std::vector<int>& kept);

 private:
  std::vector<std::string> owners_;  // "": free
  std::vector<int> kinds_;           // of each slot
};

}  // namespace adaptdl::local
