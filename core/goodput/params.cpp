#include "core/goodput/params.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<const char*, double PerfParams::*>, 7> kPerfFields = {{
    {"alpha_c", &PerfParams::alpha_c},
    {"beta_c", &PerfParams::beta_c},
    {"alpha_n", &PerfParams::alpha_n},
    {"beta_n", &PerfParams::beta_n},
    {"alpha_r", &PerfParams::alpha_r},
    {"beta_r", &PerfParams::beta_r},
    {"gamma", &PerfParams::gamma},
}};

double number(const json& object, const char* field, double low, double high,
              const std::string& where) {
  const auto found = object.find(field);
  if (found == object.end()) fail("{}: {} is missing", where, field);
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!std::isfinite(value) || value < low || value > high) {
    if (std::isfinite(high)) {
      fail("{}: {} is {}; it must be a number from {} to {}", where, field, found->dump(), low,
           high);
    }
    fail("{}: {} is {}; it must be a finite number, at least {}", where, field, found->dump(), low);
  }
  return value;
}

void require_object(const json& value, const std::string& where) {
  if (!value.is_object()) fail("{}: is {}; it must be an object or null", where, value.type_name());
}

}  // namespace

double gain(const GradParams& grad, double scale) {
  const double denominator = grad.var / scale + grad.sqr;
  return denominator > 0 ? (grad.var + grad.sqr) / denominator : 1.0;
}

json to_json(const PerfParams& params) {
  json object = json::object();
  for (const auto& [name, member] : kPerfFields) object[name] = params.*member;
  return object;
}

json to_json(const GradParams& params) {
  return {{"norm", params.sqr}, {"var", params.var}};
}

std::optional<PerfParams> perf_params_from_json(const json& value, const std::string& where) {
  if (value.is_null()) return std::nullopt;
  require_object(value, where);
  PerfParams params;
  for (const auto& [name, member] : kPerfFields) {
    const bool is_gamma = member == &PerfParams::gamma;
    params.*member = number(value, name, is_gamma ? 1 : 0, is_gamma ? 10 : HUGE_VAL, where);
  }
  return params;
}

std::optional<GradParams> grad_params_from_json(const json& value, const std::string& where) {
  if (value.is_null()) return std::nullopt;
  require_object(value, where);
  return GradParams{number(value, "norm", 0, HUGE_VAL, where),
                    number(value, "var", 0, HUGE_VAL, where)};
}

}  // namespace adaptdl
