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
  bool terminal = false;             // it gets one; its standard error comes with its output then
  int input = -1;                    // descriptor whose bytes it reads, to its end; -1: it has none
  // Servers before 1.30 cannot end a command's input: that is an Error when `input` ends, unless
  // the command ends by itself (head -c SIZE).
  bool input_is_counted = false;
  std::function<void(std::string_view)> output, errors;  // what it writes; empty: dropped
  // With a terminal: its size; asked at first and about once a second.
  std::function<TerminalSize()> size;
  Seconds silence{60.0};  // for which the server may leave a ping unanswered; then it is gone. > 0
};

// Runs it to its end and returns its exit code. Throws ApiError if it cannot be started (no such
// program, container or pod), HttpError if the connection is lost meanwhile: the command may go on.
// That `output` and `errors` take long loses nothing.
// Of a command that ends while more than about a megabyte of its input is unread, some nodes
// (containerd 1.6) never tell the end: then only `cancel` ends this.
int exec(Client& client, const Resource& pod, const ExecOptions& options,
         const Cancellation* cancel = nullptr);

// The exit code that a Status of the error channel tells: 0 for success. Throws ApiError for one
// that tells none.
int exit_code(const std::string& what, const Json& status);

}  // namespace adaptdl::kube
