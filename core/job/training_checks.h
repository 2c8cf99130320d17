#pragma once

// Checks of adaptdl.yaml that concern several fields. Internal to core/job.

#include <map>
#include <string>

#include "core/formats/yaml.h"
#include "core/job/training_spec.h"

namespace adaptdl::settings {

// Where each field was written, by dotted path. A missing field has a node that is not present;
// its errors name the mapping that should hold the field.
using Places = std::map<std::string, YamlNode>;

// Throws Error "FILE:LINE: FIELD: what is wrong; what is allowed" for the first contradiction.
// Fills in values that follow from other fields: batch.max, batch.atomic_max, the length of a
// cosine and the like. `own_data`: the program may have a loop that says how many epochs there are,
// so without `epochs` that length is fit_schedule()'s if the default leaves none.
void check_and_complete(TrainingSpec& spec, const Places& places, bool own_data);

// Why the last part of a schedule needs a length, where the parts before take all epochs.
std::string nothing_left(double epochs);

}  // namespace adaptdl::settings
