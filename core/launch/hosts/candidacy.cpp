#include "core/launch/hosts/candidacy.h"

#include <algorithm>
#include <sys/socket.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/net/socket.h"

namespace adaptdl::launch {
namespace {

constexpr std::chrono::seconds kOthersTurn{5};
// From when a killed process's connections close until it is known to have ended.
constexpr std::chrono::milliseconds kToEnd{500};

}  // namespace

Candidacy::Candidacy(std::shared_ptr<Fd> listener, TcpAddress at, Seconds until_lost, Start start)
    : listener_(std::move(listener)),
      at_(std::move(at)),
      until_lost_(until_lost),
      start_(std::move(start)) {
  if (!listener_) return;
  if (*listener_) {
    at_.port = port_of(listener_->get());
  } else {
    lead_again_at_ = TimePoint::max();
  }
}

void Candidacy::open() {
  if (!listener_ || may_lead()) return;
  try {
    *listener_ = listen_tcp(at_);
    lead_again_at_ = TimePoint::min();
  } catch (const Error&) {
    // The launcher may have it, on this host.
  }
}

bool Candidacy::lead(const Roster& roster, bool nobody_else) {
  if (leads() && has_led_) launcher_.wait_until(Monotonic::now() + kToEnd);
  look();
  if (!listener_) return false;
  if (leads()) return true;
  if (Monotonic::now() < lead_again_at_ && !(nobody_else && has_led_)) return false;
  if (!*listener_) *listener_ = listen_tcp(at_);
  launcher_ = start_(listener_->get(), roster);
  has_led_ = false;
  return true;
}

void Candidacy::look() {
  if (launcher_ && launcher_.poll()) {
    launcher_ = {};
    listener_->reset();
    lead_again_at_ = Monotonic::now() + kOthersTurn;
  }
  if (!listener_ || *listener_ || Monotonic::now() < lead_again_at_) return;
  try {
    *listener_ = listen_tcp(at_);
  } catch (const Error&) {
    lead_again_at_ = Monotonic::now() + kOthersTurn;
  }
}

TimePoint Candidacy::deadline() const {
  return listener_ && !*listener_ ? std::min(lead_again_at_, close_at_) : close_at_;
}

void Candidacy::add_wait(Place place, std::vector<pollfd>& waits) const {
  if (!listens() || place == Place::looks_for_one) return;
  if (place == Place::has_launcher && close_at_ != TimePoint::max()) return;
  waits.push_back({listener_->get(), POLLIN, 0});
}

bool Candidacy::knocked(Place place) {
  if (!listens() || place == Place::looks_for_one) {
    close_at_ = TimePoint::max();
    return false;
  }
  if (place == Place::in_no_run || Monotonic::now() >= close_at_) {
    close_all();
    close_at_ = TimePoint::max();
    return false;
  }
  if (close_at_ != TimePoint::max() || !wait_ready(listener_->get(), POLLIN, Monotonic::now())) {
    return false;
  }
  close_at_ = time_after(Monotonic::now(), until_lost_);
  return true;
}

void Candidacy::close_all() {
  while (Fd(::accept4(listener_->get(), nullptr, nullptr, SOCK_CLOEXEC))) {
  }
}

}  // namespace adaptdl::launch
