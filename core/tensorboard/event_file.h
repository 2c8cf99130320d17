#pragma once

// TensorBoard event files, written without TensorFlow: TFRecord framing (length, masked CRC-32C of
// the length, payload, masked CRC-32C of the payload) around protocol buffers of type
// tensorflow.Event, encoded by hand. Only scalars.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/fd.h"

namespace adaptdl {

struct Scalar {
  std::string_view tag;  // "loss/train": the part before the slash groups charts
  double value = 0;      // stored as fp32; may be not a number
};

// Encodings, for tests and readers. Pure.
std::string tfrecord(std::string_view payload);
std::string encode_scalars_event(double wall_time_s, int64_t step, std::span<const Scalar> scalars);
std::string encode_version_event(double wall_time_s);  // what a file begins with

// One event file, appended to. Not thread-safe.
//
// Losing a chart must not stop training: after the constructor nothing throws. When the disk is
// full or gone, what was buffered is dropped and counted, and a half-written record is taken back,
// so that the file stays readable and later events can still be added.
class EventFile {
 public:
  // Creates `folder` where needed, and in it events.out.tfevents.SECONDS.HOST (with .1, .2, ...
  // appended while that name is taken). `wall_time_s` is in seconds since 1970. Throws Error.
  EventFile(const std::string& folder, double wall_time_s, const std::string& host);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // One event with all the scalars of a step. Buffered; at most 64 KiB wait in memory.
  void add(double wall_time_s, int64_t step, std::span<const Scalar> scalars);

  // Hands everything buffered to the system.
  void flush();

  const std::string& path() const { return path_; }
  int64_t dropped() const { return dropped_; }         // events lost so far
  const std::string& error() const { return error_; }  // why the newest was lost; "" = none was

 private:
  void append(const std::string& payload);

  std::string path_, buffer_, error_;
  Fd file_;
  int64_t written_ = 0;   // bytes of whole records in the file
  int64_t buffered_ = 0;  // events
  int64_t dropped_ = 0;
};

}  // namespace adaptdl
