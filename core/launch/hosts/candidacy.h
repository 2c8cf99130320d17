#pragma once

// A host's part in who leads a run next: where it would listen, the launcher that it starts when it
// is its turn, and what it says to hosts that ask meanwhile.

#include <functional>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/process.h"
#include "core/launch/hosts/roster.h"
#include "core/net/tcp.h"

namespace adaptdl::launch {

// One thread; part of an event loop: blocks only where it says so.
class Candidacy {
 public:
  using Start = std::function<Child(int listener, const Roster& roster)>;

  // No listener: this host never leads. `at`: where it listens; of a listener that is not open yet,
  // for open(), with the port. `until_lost`: after which time a host here has noticed that its
  // launcher is lost.
  Candidacy(std::shared_ptr<Fd> listener, TcpAddress at, Seconds until_lost, Start start);

  // Does nothing if that is open, or its port is taken: then this host does not lead.
  void open();
  uint16_t port() const { return may_lead() ? at_.port : 0; }  // 0: it never leads

  // Starts a launcher in place of the one that the roster is of; whether one listens here. After
  // the end of one that this host has started it is the turn of others for a while, which see that
  // nothing listens here; with `nobody_else` only if that one has never led. Waits briefly for the
  // end of one that has led: whoever calls has lost the connection to it. Throws Error.
  bool lead(const Roster& roster, bool nobody_else = false);
  bool leads() const { return launcher_.running(); }
  void has_led() { has_led_ = true; }                     // the launcher that this host has started
  bool stop() { return launcher_.send_signal(SIGTERM); }  // false: there is none
  void wait_for_launcher(TimePoint deadline) { launcher_.wait_until(deadline); }
  // Call from time to time, and at deadline(): notices that the launcher has ended.
  void look();
  TimePoint deadline() const;

  // A host of no run closes connections: it is not about to lead, though it listens, and whoever
  // looks for a launcher must not wait for an answer. A host of a run leaves them waiting, for the
  // launcher that may start here; knocked() is then true once, as a reason to look whether its own
  // launcher lives. Once that must have shown, they are closed.
  enum class Place { in_no_run, has_launcher, looks_for_one };
  void add_wait(Place place, std::vector<pollfd>& waits) const;
  bool knocked(Place place);

 private:
  bool may_lead() const { return listener_ && lead_again_at_ != TimePoint::max(); }
  bool listens() const { return listener_ && *listener_ && !leads(); }
  void close_all();

  const std::shared_ptr<Fd> listener_;
  TcpAddress at_;
  const Seconds until_lost_;
  const Start start_;
  Child launcher_;
  bool has_led_ = false;
  TimePoint lead_again_at_ = TimePoint::min();  // max: not before open()
  TimePoint close_at_ = TimePoint::max();       // a connection waits until then
};

}  // namespace adaptdl::launch
