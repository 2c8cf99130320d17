#pragma once

// Keeps the newest checkpoint of a run in an object store, for a start on another machine.
//
// Invariants
//  1. The index (mirror_index.h) lists only checkpoints whose objects are all in the store; a new
//     one's objects have names of their own until then.
//  2. Training never waits for an upload; one is sent at a time, and then the newest.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/base/pipe.h"
#include "core/launch/run/mirror_index.h"
#include "core/net/s3.h"

namespace adaptdl::launch {

struct MirrorOptions {
  S3Place place;
  S3Access access;
};

// What became of an upload.
struct MirrorNews {
  int64_t step = 0;
  uint64_t bytes = 0;  // of the checkpoint's files
  double seconds = 0;  // of this attempt
  std::string error;   // "": all is in the store
};

// All functions but cancel() on one thread.
class CheckpointMirror {
 public:
  // `folder`: of the run's checkpoints.
  CheckpointMirror(MirrorOptions options, std::string run, std::string folder);
  ~CheckpointMirror();  // ends an upload that is not finished
  CheckpointMirror(const CheckpointMirror&) = delete;
  CheckpointMirror& operator=(const CheckpointMirror&) = delete;

  // Before the first replica. Reads the index, and gets the newest checkpoint that is intact if it
  // is newer than those in the folder that are; returns its step. What the folder has of this step
  // or later ones, damaged or of an earlier training, is renamed. `tell` gets a sentence for each
  // that is not usable. Throws Error if the store cannot be read, holds another run's checkpoints,
  // or only damaged ones; Cancelled. Blocks for as long as a transfer takes, or as long as reading
  // the newest checkpoint in the folder.
  std::optional<int64_t> restore(const std::function<void(std::string)>& tell);

  // Instead of it, for a run that starts from scratch: the checkpoints in the store are removed.
  void clear();

  // After one of them: starts the thread that sends.
  void start();

  // The folder may have a newer checkpoint. Does not block.
  void look();

  // No newer one will come: a failure that will not pass is now the last.
  void finish();
  // After finish(): whether the newest checkpoint is in the store, or will not be.
  bool done();

  int fd() const { return news_pipe_.reader.get(); }  // readable when there are news
  std::vector<MirrorNews> take_news();

  // Ends whatever waits for the store. Any thread.
  void cancel() { cancelled_.cancel(); }

  std::string place() const { return options_.place.text(); }
  int64_t newest_in_store();  // its step; -1: none

 private:
  struct Opened;

  void send_all();
  std::optional<Opened> open_newest() const;
  void send(Opened& opened);
  std::optional<MirrorIndex> read_index();
  void write_index(const MirrorIndex& index);
  void remove_leftovers();
  bool get(const MirroredCheckpoint& checkpoint, const std::string& folder, std::string& problem);
  void put_in_place(const std::string& arriving, const MirroredCheckpoint& checkpoint,
                    const std::function<void(std::string)>& tell);
  std::string key(const std::string& name) const { return options_.place.prefix + "/" + name; }
  void tell(MirrorNews news);

  const MirrorOptions options_;
  const std::string run_, folder_;
  Cancellation cancelled_;
  S3Bucket bucket_;
  MirrorIndex index_;  // as in the store; of the sending thread once that runs
  Pipe news_pipe_;

  std::mutex mutex_;
  std::condition_variable woken_;
  bool look_ = true, finishing_ = false, done_ = false;
  int64_t newest_in_store_ = -1;
  std::vector<MirrorNews> news_;
  std::thread thread_;
};

}  // namespace adaptdl::launch
