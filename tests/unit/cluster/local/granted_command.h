#pragma once

#include "core/formats/json.h"

namespace adaptdl::local {

// A job.json as the service writes it, of a command, with keys of a later version.
inline Json granted_command() {
  return Json::parse(R"({"format": 2,
      "spec": {"format": 1, "kind": "command", "program": "bin/train", "arguments": ["x"],
               "environment": {"A": "b"}, "min_replicas": 0, "max_replicas": 64,
               "tensorboard": "charts", "grace_s": 7, "retries": 5, "future": [1]},
      "grant": {"name": "a", "namespace": "default", "directory": "/p", "min_replicas": 2,
                "max_replicas": null, "tensorboard": "/t/charts", "slot_kind": "core",
                "slots_per_replica": 1, "future": [1]}})");
}

}  // namespace adaptdl::local
