#pragma once

// Environment variables that our schedulers set for a training program.

namespace adaptdl {

// ADAPTDL_SCHED_VERSION. AdaptDL's clients exit at any other major version than this.
inline constexpr const char* kSchedulerVersion = "0.2.11";

// The kind of accelerators that the program trains on, as its scheduler calls it; unset where the
// scheduler knows none.
inline constexpr const char* kAcceleratorVariable = "ADAPTDL_ACCELERATOR";

// Of PyTorch 2.6 and newer: with 1, every torch.load of the program reads pickles, which can run
// any code. Set only for programs that ask for it, or whose own AdaptDL checkpoint needs it.
inline constexpr const char* kLoadPicklesVariable = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD";

// The key of a job's connections between hosts (core/net/tls.h), which is never sent.
inline constexpr const char* kLinkKeyVariable = "ADAPTDL_LINK_KEY";

// The supervisor over HTTPS, and the certificates (PEM) that prove it, for launchers in pods and
// for programs of the runtime library. ADAPTDL_SUPERVISOR_URL is the same over HTTP, for AdaptDL's
// Python client.
inline constexpr const char* kSecureSupervisorVariable = "ADAPTDL_SUPERVISOR_HTTPS_URL";
inline constexpr const char* kSupervisorAuthoritiesVariable = "ADAPTDL_SUPERVISOR_CA";
// The name in its certificate, whatever host the URL names.
inline constexpr const char* kSupervisorHost = "adaptdl-supervisor";

}  // namespace adaptdl
