#pragma once

// Which data a replica sees. All must see the same, because each reads a part of every batch, and
// goes on where another one ended.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/data/fingerprint.h"

namespace adaptdl {

struct SeenData {
  data::Fingerprint train, validation;  // validation: of 0 samples if there is none

  bool operator==(const SeenData&) const = default;
};

SeenData seen_data(const data::Data& data);

// A checkpoint's record of it. From JSON: nothing, if an earlier version wrote it.
nlohmann::json to_json(const SeenData& seen);
std::optional<SeenData> seen_data_from_json(const nlohmann::json& json);

// What differs, as the end of a sentence on who has `data`: "sees 401 samples in images, OTHERS
// 400". "": nothing does.
std::string describe_difference(const data::Data& data, const SeenData& seen,
                                const std::string& others);

}  // namespace adaptdl
