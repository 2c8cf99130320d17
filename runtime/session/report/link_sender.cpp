#include "runtime/session/report/link_sender.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace adaptdl {

void LinkSender::step_ended() {
  const comm::Communicator* const communicator = session_.communicator();
  if (!session_.has_launcher() || communicator == nullptr) return;
  if (communicator->hosts() < kLeastHosts || communicator->hosts() > kMostHosts) return;
  const TimePoint now = Monotonic::now();
  const double seconds = seconds_between(begun_, now);
  const bool same = communicator->generation() == generation_;
  if (same && seconds < kWindow_s) return;
  const std::vector<comm::LinkUse> before = std::exchange(before_, communicator->link_use());
  generation_ = communicator->generation();
  begun_ = now;
  if (!same || before_.empty()) return;
  nlohmann::json to = nlohmann::json::array();
  for (size_t i = 0; i < before_.size(); ++i) {
    to.push_back({{"rank", before_[i].rank},
                  {"bytes", before_[i].bytes - before[i].bytes},
                  {"busy_s", before_[i].busy_s - before[i].busy_s}});
  }
  session_.send({{"type", "links"},
                 {"generation", generation_},
                 {"seconds", seconds},
                 {"collectives", before_.front().collectives - before.front().collectives},
                 {"to", std::move(to)}});
}

}  // namespace adaptdl
