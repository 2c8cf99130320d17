#pragma once

// CHECKPOINT_DIR/roster.json: the other hosts of a run, as this host last knew them. Where hosts
// share no folder, one that was lost and comes again finds by it who leads now.

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

  void write(const Roster& roster) const;  // forgets instead if all share the folder. Throws Error
  void forget() const;

  // Where those hosts lead, if they do. Empty if there is no file, or none that can be read.
  std::vector<LauncherAddress> others() const;
  // Whether they are so many that they may have gone on without this host.
  bool others_may_go_on() const;

 private:
  std::optional<Roster> read() const;

  const std::string path_;
};

// Whether the launcher of the run of that key answers there. Takes a second and a half at most.
bool answers_as_launcher(const LauncherAddress& address, const TlsKey& key);

// Which of these addresses leads the run of that key. Waits so long for one, since hosts that have
// lost their launcher need a while to agree on another one; if that is not 0, it tells `talk`.
std::optional<LauncherAddress> leader_among(const std::vector<LauncherAddress>& hosts,
                                            const TlsKey& key, Seconds patience, const Talk& talk);

}  // namespace adaptdl::launch
