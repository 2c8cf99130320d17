#pragma once

// What the user is told of the mirror of the checkpoints, and how long the end of a run waits for
// it.

#include "core/base/signals.h"
#include "core/launch/io/control.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/checkpoint_mirror.h"

namespace adaptdl::launch {

// One thread.
class MirrorReport {
 public:
  // Borrows all. `mirror`: started, or null; then there is nothing to tell.
  MirrorReport(CheckpointMirror* mirror, RunReport& report) : mirror_(mirror), report_(report) {}

  // What became of uploads since: each in the events, a failure in words once, until a checkpoint
  // is sent again.
  void tell();

  // Sends the last checkpoint, for a while; a signal ends that. Requests are answered meanwhile.
  void wait_for_last(SignalCatcher& signals, ControlServer& control);

 private:
  CheckpointMirror* const mirror_;
  RunReport& report_;
  bool fails_ = false;  // the newest attempt to send has failed, and the user knows it
};

}  // namespace adaptdl::launch
