#pragma once

// What `install`, `upgrade` and `uninstall` share.

#include "cli/commands.h"
#include "core/kube/client.h"

namespace adaptdl::cli {

// The cluster of --context and --kubeconfig; -v shows each request.
kube::Client installer_client(const Arguments& arguments);

// Whether a person is there to be asked, and was not told not to.
bool asks(const Arguments& arguments);

// Asks at the terminal; an empty answer is no.
bool agreed(std::string_view question);

// --timeout, in seconds.
double timeout_option(const Arguments& arguments);

Option yes_option();

}  // namespace adaptdl::cli
