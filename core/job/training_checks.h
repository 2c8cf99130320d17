#pragma once

// Checks of adaptdl.yaml that look at several fields at once. Internal to core/job.

#include <map>
#include <string>

#include "core/formats/yaml.h"
#include "core/job/training_spec.h"

namespace adaptdl::settings {

// Where each field was written, by dotted path; a field left out has a node that is not present and
// complains at what should hold it.
using Places = std::map<std::string, YamlNode>;

// Throws Error "FILE:LINE: FIELD: what is wrong; what is allowed" for the first contradiction, and
// fills in what follows from other fields: batch.max, batch.atomic_max, the length of a cosine.
void check_and_complete(TrainingSpec& spec, const Places& places);

}  // namespace adaptdl::settings
