#pragma once

// Work on a GPU beside what the training thread has queued there. On a CPU nothing is queued, and
// all of this does nothing.

#include <memory>
#include <optional>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace adaptdl {

class SideStream {
 public:
  explicit SideStream(at::Device device);

  // All that the calling thread's current stream has been given so far; null on a CPU. Any thread.
  std::shared_ptr<const c10::Event> here() const;

  // Until the side stream has done all that it has been given.
  void wait() const;

  // While one exists, what the calling thread queues runs on the side stream, after `point`.
  class Scope {
   public:
    Scope(const SideStream& side, const std::shared_ptr<const c10::Event>& point);

   private:
    std::optional<c10::StreamGuard> guard_;
  };

 private:
  std::optional<c10::Stream> stream_;
};

}  // namespace adaptdl
