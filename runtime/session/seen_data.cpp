#include "runtime/session/seen_data.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace adaptdl {
namespace {

// The content is a text because many programs read numbers as floats.
nlohmann::json print_to_json(const data::Fingerprint& print) {
  return {{"samples", print.samples}, {"content", fmt::format("{:016x}", print.content)}};
}

data::Fingerprint print_from_json(const nlohmann::json& json) {
  return {json.at("samples").get<int64_t>(),
          std::stoull(json.at("content").get<std::string>(), nullptr, 16)};
}

std::string difference(const data::Dataset& mine, const data::Fingerprint& other,
                       const std::string& others) {
  const data::Fingerprint print = mine.fingerprint();
  if (print.samples != other.samples) {
    return fmt::format("sees {} samples in {}, {} {}", print.samples, mine.name(), others,
                       other.samples);
  }
  if (print.content == other.content) return "";
  return fmt::format("sees as many samples in {} as {}, but the files differ", mine.name(), others);
}

}  // namespace

SeenData seen_data(const data::Data& data) {
  return {data.train.fingerprint(),
          data.validation ? data.validation->fingerprint() : data::Fingerprint()};
}

nlohmann::json to_json(const SeenData& seen) {
  return {{"train", print_to_json(seen.train)}, {"validation", print_to_json(seen.validation)}};
}

std::optional<SeenData> seen_data_from_json(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  return SeenData{print_from_json(json.at("train")), print_from_json(json.at("validation"))};
}

std::string describe_difference(const data::Data& data, const SeenData& seen,
                                const std::string& others) {
  const std::string text = difference(data.train, seen.train, others);
  // The settings say whether there are validation data at all.
  if (!text.empty() || !data.validation || seen.validation.samples == 0) return text;
  return difference(*data.validation, seen.validation, others);
}

}  // namespace adaptdl
