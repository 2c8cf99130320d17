#include "core/tensorboard/event_file.h"

#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/unit/tensorboard/event_reader.h"

namespace adaptdl {
namespace {

constexpr double kNow = 1767225600.25;
constexpr size_t kLargest = 16u << 20;

std::vector<ReadEvent> read_back(const EventFile& file) {
  const auto events = read_events(read_file(file.path(), kLargest));
  REQUIRE(events);
  return *events;
}

TEST_CASE("what was written is read back") {
  TemporaryDirectory folder;
  EventFile file(folder.file("logs/run"), kNow, "host-1");
  CHECK(file_name(file.path()) == "events.out.tfevents.1767225600.host-1");
  const std::vector<Scalar> first = {{"loss/train", 2.5}, {"lr", 1e-3}};
  const std::string long_tag(300, 'x');
  const std::vector<Scalar> second = {{"loss/train", std::nan("")}, {long_tag, -1}};
  file.add(kNow + 1, 7, first);
  file.add(kNow + 2, int64_t{1} << 40, second);
  file.add(kNow + 3, 0, {});
  file.flush();

  const auto events = read_back(file);
  REQUIRE(events.size() == 4);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].wall_time_s == kNow);
  CHECK(events[1].step == 7);
  CHECK(events[1].wall_time_s == kNow + 1);
  CHECK(events[1].scalars.size() == 2);
  CHECK(events[1].scalars.at("loss/train") == 2.5f);
  CHECK(events[1].scalars.at("lr") == 1e-3f);
  CHECK(events[2].step == int64_t{1} << 40);
  CHECK(std::isnan(events[2].scalars.at("loss/train")));
  CHECK(events[2].scalars.at(long_tag) == -1);
  CHECK(events[3].scalars.empty());
  CHECK(file.dropped() == 0);
  CHECK(file.error().empty());
}

TEST_CASE("known bytes") {
  // An empty record, and an event worked out by hand from the protocol buffer rules.
  const std::string empty = tfrecord("");
  CHECK(empty.size() == 16);
  CHECK(read_events(empty)->size() == 1);
  const std::vector<Scalar> one = {{"a", 1.0}};
  CHECK(encode_scalars_event(0, 300, one) == std::string("\x09\0\0\0\0\0\0\0\0"  // wall_time
                                                         "\x10\xac\x02"          // step
                                                         "\x2a\x0a"              // summary
                                                         "\x0a\x08"              // its value
                                                         "\x0a\x01"
                                                         "a"                  // tag
                                                         "\x15\0\0\x80\x3f",  // simple_value
                                                         24));
}

TEST_CASE("a damaged byte anywhere is noticed by the reader") {
  const std::vector<Scalar> one = {{"a", 1.0}};
  const std::string record = tfrecord(encode_scalars_event(kNow, 3, one));
  REQUIRE(read_events(record));
  for (size_t i = 0; i < record.size(); ++i) {
    std::string damaged = record;
    damaged[i] ^= 0x10;
    CHECK(!read_events(damaged));
    CHECK((i == 0 || !read_events(record.substr(0, i))));
  }
}

TEST_CASE("little waits in memory, and the end writes the rest") {
  TemporaryDirectory folder;
  std::string path;
  {
    EventFile file(folder.path(), kNow, "h");
    path = file.path();
    const uint64_t at_start = file_size(path);
    const std::vector<Scalar> one = {{"loss", 1.0}};
    file.add(kNow, 0, one);
    CHECK(file_size(path) == at_start);  // buffered
    for (int i = 1; i < 5000; ++i) file.add(kNow, i, one);
    CHECK(file_size(path) > at_start);
  }
  const auto events = read_events(read_file(path, kLargest));
  REQUIRE(events);
  CHECK(events->size() == 5001);
  CHECK(events->back().step == 4999);
}

TEST_CASE("two files of one second get two names; a host's odd characters are replaced") {
  TemporaryDirectory folder;
  EventFile a(folder.path(), kNow, "../evil host"), b(folder.path(), kNow, "../evil host");
  CHECK(a.path() != b.path());
  CHECK(parent_directory(a.path()) == folder.path());
  CHECK(file_name(b.path()) == "events.out.tfevents.1767225600..._evil_host.1");
}

TEST_CASE("a folder that cannot be made is an error with its name") {
  TemporaryDirectory folder;
  write_file_atomic(folder.file("taken"), "");
  CHECK_THROWS_WITH_AS(EventFile(folder.file("taken/logs"), kNow, "h"), doctest::Contains("taken"),
                       Error);
}

// A file-size limit stands in for a full disk: writes fail half-way, later ones too.
TEST_CASE("a full disk drops events, and leaves a readable file that goes on") {
  TemporaryDirectory folder;
  EventFile file(folder.path(), kNow, "h");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 200;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::vector<Scalar> one = {{"loss", 1.0}};
  for (int i = 0; i < 20; ++i) file.add(kNow, i, one);
  file.flush();
  CHECK(file.dropped() == 20);
  CHECK(!file.error().empty());
  CHECK(read_back(file).size() == 1);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, old_handler);
  file.add(kNow, 99, one);
  file.flush();
  const auto events = read_back(file);
  CHECK(events.size() == 2);
  CHECK(events.back().step == 99);
}

// Writes a file for the real reader: tensorboard_test.py.
TEST_CASE("a file for tensorboard" * doctest::skip(std::getenv("ADAPTDL_EVENTS_DIR") == nullptr)) {
  const char* folder = std::getenv("ADAPTDL_EVENTS_DIR");
  REQUIRE(folder != nullptr);
  EventFile file(folder, kNow, "host");
  for (int step = 0; step < 100; ++step) {
    const std::vector<Scalar> scalars = {{"loss/train", 1.0 / (step + 1)}, {"batch", 32.0 + step}};
    file.add(kNow + step, step, scalars);
  }
}

}  // namespace
}  // namespace adaptdl
