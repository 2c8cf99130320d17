#pragma once

// Commands in containers, over WebSocket (v5.channel.k8s.io, else v4).

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/kube/client.h"

namespace adaptdl::kube {

struct TerminalSize {
  int columns = 80, rows = 24;
  bool operator==(const TerminalSize&) const = default;
};

struct ExecOptions {
  std::string container;             // "": the pod's only or default one
  std::vector<std::string> command;  // not through a shell; at least the program
  bool terminal = false;             // with a terminal, which merges standard error into the output
  int input = -1;                    // descriptor of its standard input, read to its end; -1: none
  // Servers before 1.30 cannot close a command's input: the end of `input` is then an Error, unless
  // the command knows its input's length (head -c SIZE) and this is true.
  bool input_is_counted = false;
  std::function<void(std::string_view)> output, errors;  // called with its output; empty: dropped
  // With a terminal: returns its size; called at the start and about once a second.
  std::function<TerminalSize()> size;
  Seconds silence{60.0};  // how long a ping may go unanswered; then the connection is lost. > 0
};

// Runs the command to its end and returns its exit code. Throws ApiError if it cannot start
// (program, container or pod not found), HttpError if the connection is lost: the command may still
// run. Slow `output` and `errors` functions lose nothing. If a command ends while more than about a
// megabyte of its input is unread, some nodes (containerd 1.6) never report the end: then only
// `cancel` ends this call.
int exec(Client& client, const Resource& pod, const ExecOptions& options,
         const Cancellation* cancel = nullptr);

// The exit code in a Status of the error channel: 0 for success. Throws ApiError if it has none.
int exit_code(const std::string& what, const Json& json);

}  // namespace adaptdl::kube
