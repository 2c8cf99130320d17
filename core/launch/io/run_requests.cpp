#include "core/launch/io/run_requests.h"

#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

ScaleRequest read_scale(const nlohmann::json& request, const RunSlots& has) {
  const ScaleRequest wanted{json_get<int>(request, "replicas", "scale"),
                            json_find<std::vector<int>>(request, "slots", "scale"),
                            json_get_or<std::string>(request, "supervisor", "scale", "")};
  if (wanted.slots && !has.own) {
    fail("this run shares all cores: it was started without slots");
  }
  if (wanted.slots && wanted.slots->empty()) fail("a run needs at least one slot");
  check_scale(wanted.replicas, wanted.slots.value_or(has.present), has.per_replica);
  if (wanted.slots && has.gpus > 0) check_gpus(*wanted.slots, has.gpus);
  return wanted;
}

}  // namespace

nlohmann::json answer_request(RunControl& run, const nlohmann::json& request) {
  const auto kind = json_get<std::string>(request, "request", "request");
  if (kind == "status") return run.status();
  if (const std::string how = run.ending(); !how.empty()) fail("the run is ending ({})", how);
  if (kind == "scale") {
    const ScaleRequest wanted = read_scale(request, run.slots());
    const int before = run.scale(wanted);
    return {{"from", before}, {"to", wanted.replicas}};
  }
  if (kind == "cancel") {
    return {{"checkpoint", run.cancel(json_get_or<bool>(request, "checkpoint", "cancel", true))}};
  }
  fail("unknown request {}", kind);
}

}  // namespace adaptdl::launch
