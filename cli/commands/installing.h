#pragma once

// Shared by `install`, `upgrade` and `uninstall`.

#include "cli/commands.h"
#include "core/kube/client.h"

namespace adaptdl::cli {

// A client for the cluster of --context and --kubeconfig; -v logs each request.
kube::Client installer_client(const Arguments& arguments);

// Whether to ask for confirmation: there is a terminal, and --yes is not given.
bool asks(const Arguments& arguments);

// Asks at the terminal; an empty answer means no.
bool agreed(std::string_view question);

// --timeout, in seconds.
double timeout_option(const Arguments& arguments);

Option yes_option();

}  // namespace adaptdl::cli
