#pragma once

// CHECKPOINT_DIR/roster.json: the other hosts of a run, as its launcher, or this host, last knew
// them. A host that was lost and comes again finds by it those that go on without it; in a folder
// that hosts share, whoever takes over from a launcher sees whether others have trained without it.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/hosts/agent.h"
#include "core/launch/hosts/roster.h"

namespace adaptdl::launch {

// Any thread.
class RosterFile {
 public:
  explicit RosterFile(const std::string& checkpoint_dir);

  void write(const Roster& roster) const;  // Throws Error
  void forget() const;
  std::optional<Roster> read() const;  // none: there is no file, or none that can be read

 private:
  const std::string path_;
};

// HostsOptions::remember: writes the file; tells `talk` when that fails, once until it works again.
std::function<void(const Roster&)> roster_keeper(const std::string& checkpoint_dir, Talk talk);

// Where its other hosts lead, if they do.
std::vector<LauncherAddress> others_of(const Roster& roster);

// Of the roster that this host has kept: its other hosts but those that are gone, where they may
// have gone on without it, and share no folder whose lock would tell. One of them may be all that
// is left. Else no hosts.
Roster may_have_gone_on(Roster known, const std::vector<LauncherAddress>& gone = {});

enum class Answer {
  leads,        // the launcher of the run of that key
  silent,       // takes connections, says nothing: a host of a run, which another one leads or led
  none,         // its machine answers: nothing of a run is there
  unreachable,  // it may be gone, or cut off
};
// Takes a second and a half at most.
Answer ask_host(const LauncherAddress& address, const TlsKey& key);

// Somewhat longer than a host of a run may not listen (candidacy.h): of which nothing is there for
// so long is gone.
inline constexpr std::chrono::seconds kNotListening{7};

// Which hosts are gone: those at whose addresses nothing of a run has been for a while. One thread.
class GoneHosts {
 public:
  explicit GoneHosts(Seconds patience = kNotListening) : patience_(patience) {}
  void note(const LauncherAddress& host, Answer answer);
  bool gone(const LauncherAddress& host) const;

 private:
  const Seconds patience_;
  std::map<LauncherAddress, TimePoint> none_since_;
};

// How long to wait for a leader among hosts: they may need a while to notice that they have lost
// theirs, and to agree on another one.
struct LeaderPatience {
  Seconds for_silent{0};       // while at least one is
  Seconds for_unreachable{0};  // the same
  Seconds for_none{0};         // until one of which there is nothing is taken for gone
};
LeaderPatience patience_with(const Roster& roster, Seconds election);

struct Search {
  std::optional<LauncherAddress> leader;
  std::vector<LauncherAddress> gone;  // without a leader
};
// Which of these addresses leads the run of that key. If it has to wait, it tells `talk`.
Search leader_among(const std::vector<LauncherAddress>& hosts, const TlsKey& key,
                    LeaderPatience patience, const Talk& talk);

}  // namespace adaptdl::launch
