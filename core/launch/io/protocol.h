#pragma once

// Messages between launcher and worker over the inherited control channel: frames of a 4-byte
// little-endian length and that many bytes of JSON, an object with a "type". The launcher makes
// every decision on membership; a worker owns its training state.
//
// worker -> launcher
//   hello      {protocol, pid, endpoint, accelerator, libtorch, device, parameters, state_bytes}:
//              program loaded and checked, ready to connect; endpoint is opaque JSON for the other
//              members. accelerator: the kind that it trains on, "" if unknown. With evaluates:
//              true it will evaluate, as the settings demand, and not train.
//   event      {event: {...}}: one event of the stream (adaptdl-events(5)), without time_s; sent by
//              rank 0 only. `rescale` (generation, pause_s, transfer_s, bytes) comes after the
//              first step of a generation, `resume` (step) before the first step after a checkpoint
//              was loaded. `step` counts finished steps from 1. Steps may repeat (the launcher
//              drops those that it has seen), but none is left out.
//   connected  {generation, hosts: [{host, address, interface}]}: the links of that generation are
//              up. hosts: the addresses that those to other hosts use; older programs omit it.
//   switched   {generation, step}: this member has the state of that generation, as of its last
//              finished step `step`, and trains in it.
//   lost       {generation, reason, connecting, unreachable}: the communicator of that generation
//              broke; waiting for the next. With `connecting` true: its links never came up; this
//              member stays in its previous generation, and continues to train if it did.
//              unreachable: the member on another host none of whose addresses answers, as the
//              sentence `reason` says; omitted if it was something else.
//   waiting    {generation, waiting}: in a step of that generation this member has been waiting for
//              others for a second or more (again after any progress); false: no longer.
//   saving     {saving}: from rank 0: it writes the best model so far or, at the end of training,
//   the
//              model and the last checkpoint, which may take long; false: no longer.
//   passes     {samples}: from now on it computes so many samples at once. If the system kills it
//              then for want of memory, half of them are the limit of all replicas.
//   copied     {step, host, error}: from the replica that writes the checkpoints on another host
//              than rank 0's as well: one is on disk there or, with an error other than "", not.
//   hints      {hints: {...}}: what the job has measured, for its scheduler (core/job/hints.h);
//              from rank 0, at most every few seconds.
//   pace       {generation, steps, seconds, replicas: [{compute_s, samples, waited_s}]}: sums over
//              some seconds of whole steps, by rank: what each replica computed, for how long, and
//              how long the others waited for it (their median). From rank 0; of two replicas or
//              more.
//   links      {generation, seconds, to: [{rank, bytes, busy_s}]}: what this host has sent to the
//              others in that time (each named by the lowest rank there), and for how long
//              something was not acknowledged. From the lowest rank of each of 3 to 64 hosts, every
//              few seconds.
//   gpu        {id, name, busy_percent, memory_bytes, memory_used_bytes, temperature_c, power_w}:
//              what the driver says of the GPU of this replica, every few seconds; null: it does
//              not tell. Of a part of a GPU (MIG) they are the whole one's.
//   leaving    {reason}: this replica was told to go (SIGTERM); wants a generation without it.
//   bye        {result: "finished"|"left"|"stopped", checkpoint, summary}: last message before exit
//              0/143. From rank 0 with "finished": the model is saved. checkpoint, from rank 0 with
//              "finished" or "stopped": whether a checkpoint of the final state is on disk. Older
//              programs omit it: then true when stopped, false when finished.
//   fatal      {message, exit, others_too}: cannot train at all (bad archive, bad data): a sentence
//              for people. others_too (default true): the run ends; otherwise only this replica
//              does, like any that dies (it cannot read its data). With {step}: an exception in
//              that step, which is a death like any other until another member fails in the same
//              step.
//
// launcher -> worker
//   welcome    {protocol, member, run_id, secret (hex), settings}: first message. settings: {name,
//              program, arguments, set: ["key=value"], checkpoint_dir, output_dir, fresh_at,
//              evaluate, replicas: how many the run is to have, atomic_limit: as in generation,
//              threads, device: "cpu"|"cuda:0", hosts: whether replicas of other hosts must reach
//              it, plain_links: whether they exchange data unencrypted, links: connections between
//              two hosts for that, nccl: whether GPUs may by NCCL, reach: {interface, advertise,
//              first_port, last_port}: how they reach it (Reach, core/net/addresses.h)}. fresh_at:
//              checkpoints of trainings that began before count for none, in milliseconds since
//              1970; 0: all count.
//   generation {generation, immediate, members: [{member, endpoint, accelerator, folder}], cause,
//              threads, atomic_limit}: rank = position in members. accelerator: as in hello.
//              folder: those with the same number share a checkpoint folder; 0 is the launcher's.
//              atomic_limit: of the atomic batch, after the system has killed a replica because
//              memory ran out; 0 = none. A worker that is not listed leaves: at the switch when
//              planned, at once if immediate. threads: what each replica may use once it trains
//              there.
//   stop       {mode: "checkpoint"|"now", exit}: end together after a checkpoint (agreed in-band),
//              or without one.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <poll.h>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/net/stream.h"

namespace adaptdl::launch {

// Version of this protocol. A worker or launcher that meets a larger one refuses with a message.
inline constexpr int kProtocol = 1;

// A worker finds its end of the channel in this variable (a descriptor number, inherited).
inline constexpr const char* kControlFdVariable = "ADAPTDL_CONTROL_FD";

// Every executable of the runtime library contains this text, by which `run` recognizes it.
inline constexpr const char* kProgramMarker = "adaptdl-runtime-program-protocol=1";

inline constexpr uint32_t kMaxFrame = 16u << 20;

// How deep a message may be nested: what handles one, or passes it on within another, is recursive.
inline constexpr int kMaxFrameDepth = 64;

using MemberId = uint64_t;  // never reused within a run

// One end of a control channel. Not thread-safe, except that one thread may send (or post and
// flush) while another receives (or drains). Throws Error when a frame is malformed, larger than
// kMaxFrame or deeper than kMaxFrameDepth. The channel is unusable after that, and after the end of
// the stream; one that refuses to send a frame stays usable.
class Channel {
 public:
  // A connected stream socket, blocking or not. `longest`: the largest accepted frame, in bytes.
  explicit Channel(Fd socket, uint32_t longest = kMaxFrame);
  // With TLS the first message of a server must follow one of the client.
  explicit Channel(Stream stream, uint32_t longest = kMaxFrame);
  int fd() const { return stream_.fd(); }
  void set_longest(uint32_t longest) { longest_ = longest; }

  // Sends all; blocks while the socket is full. False when the peer is gone.
  bool send(const nlohmann::json& message);

  // For event loops: as send, but keeps, in order, what the socket does not accept at once, until
  // flush(). False when the peer is gone, or leaves more than kMaxPending bytes unread: that ends
  // the connection, for drain() and the peer, too.
  bool post(const nlohmann::json& message);
  bool flush();
  bool wants_write() const { return !pending_.empty(); }
  // What to poll for, before draining and flushing.
  pollfd wait() const {
    return {fd(), static_cast<short>(wants_write() ? POLLIN | POLLOUT : POLLIN), 0};
  }

  // Receives one message; nullopt at the end of the stream, or at the deadline. Blocks.
  std::optional<nlohmann::json> receive(std::optional<TimePoint> deadline = {});

  // For event loops: reads what is available without blocking, and passes each whole message to
  // `on_message`, in order. False at the end of the stream, after all messages before it. Drops a
  // frame that the end of the stream cuts off: its sender died while writing it.
  template <typename F>
  bool drain(F&& on_message) {
    for (;;) {
      const Fill state = fill();
      while (auto message = next()) on_message(std::move(*message));
      if (state != Fill::more) return state == Fill::open;
    }
  }

 private:
  enum class Fill { more, open, closed };
  static constexpr size_t kMaxPending = 4 * size_t{kMaxFrame};

  Fill fill();                           // reads once without blocking
  std::optional<nlohmann::json> next();  // takes a whole message from the buffer

  Stream stream_;
  uint32_t longest_;
  std::string buffer_;  // received; the first consumed_ bytes are processed
  size_t consumed_ = 0;
  std::string pending_;  // posted, not yet accepted by the socket
};

}  // namespace adaptdl::launch
