#pragma once

// The processes of a run's replicas, on disk: a launcher that is killed takes them along, but not
// what they had started themselves. Who comes next ends that before it starts its own.
//   {"format": 1, "generation": N, "boot_id": ID, "replicas": [{pid, start_time}]}

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace adaptdl::launch {

struct ReplicaRecord {
  int64_t generation = -1;  // newest number of a generation that was used; -1: none
  std::string boot_id;
  struct Process {
    pid_t pid = 0;  // also of its process group
    uint64_t start_time = 0;
  };
  std::vector<Process> processes;
};

// A file that is missing, or damaged by a power cut, is an empty record.
ReplicaRecord read_replica_record(const std::string& path);
// Throws Error.
void write_replica_record(const std::string& path, const ReplicaRecord& record);
ReplicaRecord::Process this_boots_process(pid_t pid);

// Kills (SIGKILL) the process groups that are left of it, and waits up to `seconds` for their end.
// A group is known by its leader's start, or, when that has gone, by `mark`, text "NAME=VALUE" in
// the environment of those in it, so that nobody else is hit whose number it got. How many groups.
int kill_leftovers(const ReplicaRecord& record, const std::string& mark, double seconds = 5);

}  // namespace adaptdl::launch
