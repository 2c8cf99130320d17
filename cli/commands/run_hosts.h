#pragma once

// `adaptdl run` on several hosts: with --nnodes, or in srun and mpirun, the same command runs on
// each, with --hosts it reaches the others over ssh.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/frame/parse.h"
#include "core/launch/command/command_run.h"
#include "core/launch/hosts/agent.h"
#include "core/launch/hosts/folder_meeting.h"
#include "core/launch/hosts/ssh_hosts.h"
#include "core/launch/run/run.h"

namespace adaptdl::cli {

// At most so long it takes hosts that have noticed the loss of their launcher to follow another.
inline constexpr Seconds kElection{10};

struct HostOfRun {
  bool leads = false;                     // this process is the launcher; otherwise an agent
  launch::LauncherAddress meeting_point;  // "": with --hosts, where ssh comes from
  std::shared_ptr<launch::FolderMeeting> folder;  // where the hosts meet, if at no such address
  // Where a host writes that leads since the one at the meeting point was lost; none: nowhere.
  std::shared_ptr<launch::FolderMeeting> successor;
  bool named = false;                   // the meeting point is this host, but another one leads now
  std::optional<Seconds> patience;      // AgentOptions
  std::string key_file;                 // "": the key is not in a file
  int leash = -1;                       // AgentOptions
  std::vector<launch::SshHost> others;  // that this process starts

  // Whether host_of_run() may find another leading host now.
  bool may_join_others() const { return !meeting_point.host.empty() && others.empty(); }
};

// Whether the flags, or srun and mpirun, put the run on several hosts. Throws UsageError.
bool on_several_hosts(const Arguments& arguments);

// Whether hosts meet at torchrun's --master-addr and --master-port. That port is then no program's.
bool meet_at_master_port(const Arguments& arguments);

// This host's part, and sets `options.hosts`; nothing for a run on one machine. Throws UsageError
// or Error.
std::optional<HostOfRun> host_of_run(const Arguments& arguments, launch::RunOptions& options,
                                     const launch::Talk& talk);
// The same of a command. `options` is what a program would have of its options.
std::optional<HostOfRun> host_of_command(const Arguments& arguments,
                                         launch::CommandOptions& command,
                                         launch::RunOptions& options, const launch::Talk& talk);

// A witness of the run (HostsOptions::slots). Of `options`, name, checkpoint_dir and reach count.
HostOfRun witness_of_run(const Arguments& arguments, launch::RunOptions& options,
                         const launch::Talk& talk);

// The others of --hosts. Throws Error if fewer are ready than the run needs.
class RemotePart {
 public:
  RemotePart(const std::optional<HostOfRun>& host, const Arguments& arguments,
             const launch::RunOptions& options, const launch::Talk& talk);
  // Ends them. The run's exit code, given the launcher's: it fails if it lacked hosts for good.
  int finish(int code);

 private:
  std::atomic<bool> lacks_{false};
  std::unique_ptr<launch::SshHosts> hosts_;
};

// Tells the others how the run has ended if they meet in a folder. Says so if it cannot: the run's
// exit code stays.
void tell_end(const std::optional<HostOfRun>& host, int code, const launch::Talk& talk);

// Runs the agent to its end; returns the exit code. `command`: instead of a program, with the
// options of host_of_command(); null: none. Throws NobodyLeads if nobody leads the run any more, so
// that this host, at which the others look, is to ask host_of_run() again.
int run_host(const HostOfRun& host, const launch::RunOptions& options,
             const launch::CommandOptions* command, const launch::Talk& talk);

// Runs the agent of a program while this host does not lead; returns the exit code, or nothing once
// it is to lead, with `host` and `options` for that.
std::optional<int> follow(std::optional<HostOfRun>& host, const Arguments& arguments,
                          launch::RunOptions& options, const launch::Talk& talk);

}  // namespace adaptdl::cli
