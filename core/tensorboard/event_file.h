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
  double value = 0;      // stored as fp32; may be NaN
};

// Encodings, for tests and readers. Pure.
std::string tfrecord(std::string_view payload);
std::string encode_scalars_event(double wall_time_s, int64_t step, std::span<const Scalar> scalars);
std::string encode_version_event(double wall_time_s);  // the first event of a file

// One event file, appended to. Not thread-safe.
//
// A lost chart must not stop training: after the constructor nothing throws. If a write fails, for
// example on a full disk, the buffered events are dropped and counted, and a half-written record is
// truncated, so that the file stays readable and accepts later events.
class EventFile {
 public:
  // Creates `folder` where needed, and in it events.out.tfevents.SECONDS.HOST (with .1, .2, ...
  // appended while that name is taken). `wall_time_s` is in seconds since 1970. Throws Error.
  EventFile(const std::string& folder, double wall_time_s, const std::string& host);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Adds one event with all the scalars of a step. Buffers up to 64 KiB in memory.
  void add(double wall_time_s, int64_t step, std::span<const Scalar> scalars);

  // Writes the buffer to the file.
  void flush();

  const std::string& path() const { return path_; }
  int64_t dropped() const { return dropped_; }         // events lost so far
  const std::string& error() const { return error_; }  // why the last one was lost; "": none was

 private:
  void append(const std::string& payload);

  std::string path_, buffer_, error_;
  Fd file_;
  int64_t written_ = 0;   // bytes of whole records in the file
  int64_t buffered_ = 0;  // events
  int64_t dropped_ = 0;
};

}  // namespace adaptdl
