#pragma once

// The processes of a run's replicas, on disk. When a launcher is killed, its replicas die with it,
// but not the processes that they had started. The next launcher kills those before it starts its
// own.
//   {"format": 1, "generation": N, "boot_id": ID, "job": ADAPTDL_JOB_ID, "restartable": true|false,
//    "load_pickles": true|false, "replicas": [{pid, start_time}]}

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl::launch {

struct ReplicaRecord {
  int64_t generation = -1;  // newest generation number used; -1: none
  std::string boot_id;
  std::string job;           // ADAPTDL_JOB_ID of the replicas; "": of a record without it
  bool restartable = false;  // the program has saved and exited with 143 when it was asked to stop
  struct Process {
    pid_t pid = 0;  // also of its process group
    uint64_t start_time = 0;
  };
  bool load_pickles = false;  // torch.load has to read pickles, see pickle_refusal.h
  std::vector<Process> processes;
};

// The record's file, locked: two launchers must not share it, because each would take the other's
// replicas for leftovers. Nothing if another process has it. Throws Error.
struct ReplicasFile {
  std::string path;
  Fd lock;
};
std::optional<ReplicasFile> claim_replicas_file(std::string path);

// Returns an empty record for a file that is missing, or damaged by a power cut.
ReplicaRecord read_replica_record(const std::string& path);
// Throws Error.
void write_replica_record(const std::string& path, const ReplicaRecord& record);
ReplicaRecord::Process this_boots_process(pid_t pid);

// A process of this group lives. Zombies do not count: nobody may ever reap them, as in a container
// whose process 1 (this one, perhaps) does not.
bool group_lives(pid_t group);
std::vector<pid_t> living_in_group(pid_t group);

// Kills (SIGKILL) the remaining process groups of the record, and waits up to `seconds` for their
// end. Returns how many groups it killed. A group is identified by its leader's start time or, if
// the leader is gone, by `mark`, text "NAME=VALUE" in the environment of its processes. So a reused
// number kills nobody else. A record without processes is of a launcher that died while it started
// them: then groups whose processes have the mark, and ADAPTDL_NUM_RESTARTS and ADAPTDL_JOB_ID of
// the record, are killed.
int kill_leftovers(const ReplicaRecord& record, const std::string& mark, double seconds = 5);

}  // namespace adaptdl::launch
