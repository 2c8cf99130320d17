#include "runtime/session/report/link_sender.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace adaptdl {

void LinkSender::step_ended() {
  const comm::Communicator* const communicator = session_.communicator();
  if (!session_.has_launcher() || communicator == nullptr) return;
  if (communicator->hosts() < kLeastHosts || communicator->hosts() > kMostHosts) return;
  // At its first step, before which state was sent.
  if (communicator->generation() != generation_) {
    generation_ = communicator->generation();
    before_.clear();
    return;
  }
  const TimePoint now = Monotonic::now();
  const double seconds = seconds_between(begun_, now);
  if (!before_.empty() && seconds < kWindow_s) return;
  const std::vector<comm::LinkUse> before = std::exchange(before_, communicator->link_use());
  begun_ = now;
  if (before.empty()) return;
  nlohmann::json to = nlohmann::json::array();
  for (size_t i = 0; i < before.size(); ++i) {
    to.push_back({{"rank", before[i].rank},
                  {"bytes", before_[i].bytes - before[i].bytes},
                  {"busy_s", before_[i].busy_s - before[i].busy_s}});
  }
  session_.send({{"type", "links"},
                 {"generation", generation_},
                 {"seconds", seconds},
                 {"to", std::move(to)}});
}

}  // namespace adaptdl
