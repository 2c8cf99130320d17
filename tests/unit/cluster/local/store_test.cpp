#include "core/cluster/local/store.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

JobRecord some_job(const std::string& name) {
  JobRecord job;
  job.name = name;
  job.spec = R"({"format":1})";
  job.token = "secret";
  job.phase = "Pending";
  job.submitted_s = 1.5e9;
  return job;
}

std::vector<std::string> names(JobStore& store, bool unfinished) {
  std::vector<std::string> result;
  const auto add = [&](JobRecord& job) { result.push_back(job.name); };
  if (unfinished) {
    store.unfinished(add);
  } else {
    store.all(add);
  }
  return result;
}

}  // namespace

TEST_CASE("what was stored is read again, also by somebody else meanwhile") {
  const TemporaryDirectory folder;
  JobStore store(folder.file("state.db"), Database::Mode::write);
  JobRecord job = some_job("a");
  store.add(job);
  CHECK(job.id > 0);
  job.phase = "Running";
  job.reason = "R";
  job.message = "m";
  job.why = "w";
  job.started_s = 2.5;
  job.replicas = 3;
  job.slots = {1, 5};
  job.restarts = 4;
  job.starts = 5;
  job.failures = 6;
  job.service_s = 7.25;
  job.min_replicas = 8;
  job.max_replicas = 9;
  job.suspended = true;
  job.hints = "{}";
  job.exit_code = 10;
  job.start_cost_s = 11.5;
  store.update(job);

  JobStore reader(folder.file("state.db"), Database::Mode::read);
  const std::optional<JobRecord> seen = reader.find("a");
  REQUIRE(seen);
  CHECK(seen->id == job.id);
  CHECK(seen->spec == job.spec);
  CHECK(seen->token == job.token);
  CHECK(seen->phase == "Running");
  CHECK(seen->reason == "R");
  CHECK(seen->message == "m");
  CHECK(seen->why == "w");
  CHECK(seen->submitted_s == 1.5e9);
  CHECK(seen->started_s == 2.5);
  CHECK(!seen->ended_s);
  CHECK(seen->replicas == 3);
  CHECK(seen->slots == std::vector<int>{1, 5});
  CHECK(seen->restarts == 4);
  CHECK(seen->starts == 5);
  CHECK(seen->failures == 6);
  CHECK(seen->service_s == 7.25);
  CHECK(seen->min_replicas == 8);
  CHECK(seen->max_replicas == 9);
  CHECK(seen->suspended);
  CHECK(!seen->cancelled);
  CHECK(seen->hints == "{}");
  CHECK(seen->exit_code == 10);
  CHECK(seen->start_cost_s == 11.5);
  CHECK(!reader.find("b"));

  reader.all_briefly([&](JobRecord& brief) {
    CHECK(brief.name == "a");
    CHECK(brief.phase == "Running");
    CHECK(brief.reason == "R");
    CHECK(brief.slots == std::vector<int>{1, 5});
    CHECK(brief.restarts == 4);
    CHECK(brief.suspended);
    CHECK(brief.exit_code == 10);
    CHECK(brief.hints == "{}");
    for (const std::string& left_out : {brief.spec, brief.token, brief.message, brief.why}) {
      CHECK(left_out.empty());
    }
  });
  job.replicas = 0;
  store.update(job);
  reader.all_briefly([](JobRecord& brief) { CHECK(brief.hints.empty()); });
}

TEST_CASE("jobs are listed by submission, ended ones apart") {
  const TemporaryDirectory folder;
  JobStore store(folder.file("state.db"), Database::Mode::write);
  for (const char* name : {"c", "a", "b"}) {
    JobRecord job = some_job(name);
    store.add(job);
    if (job.name != "a") continue;
    job.ended_s = 3;
    store.update(job);
  }
  CHECK(names(store, false) == std::vector<std::string>{"c", "a", "b"});
  CHECK(names(store, true) == std::vector<std::string>{"c", "b"});
  CHECK(store.names("", 2) == std::vector<std::string>{"b", "a"});
  CHECK(store.names("c", 9) == std::vector<std::string>{"c"});
  store.remove("c");
  CHECK(names(store, true) == std::vector<std::string>{"b"});
}

TEST_CASE("of the jobs that succeeded the newest are read, oldest first") {
  const TemporaryDirectory folder;
  JobStore store(folder.file("state.db"), Database::Mode::write);
  for (const char* name : {"early", "failed", "running", "late", "later"}) {
    JobRecord job = some_job(name);
    store.add(job);
    job.phase = job.name == "failed" ? "Failed" : job.name == "running" ? "Running" : "Succeeded";
    if (job.name != "running") job.ended_s = job.name == "early" ? 1 : 9;
    store.update(job);
  }
  std::vector<std::string> found;
  store.succeeded(2, [&](const JobRecord& job) { found.push_back(job.name); });
  CHECK(found == std::vector<std::string>{"late", "later"});
}

TEST_CASE("a name is given once") {
  const TemporaryDirectory folder;
  JobStore store(folder.file("state.db"), Database::Mode::write);
  JobRecord job = some_job("a"), again = some_job("a");
  store.add(job);
  CHECK_THROWS_WITH_AS(store.add(again), doctest::Contains("adaptdl delete a"), Error);
}

TEST_CASE("of many events the newest are kept, for each job") {
  const TemporaryDirectory folder;
  JobStore store(folder.file("state.db"), Database::Mode::write);
  store.add_event({0, "b", 1, "Submitted", "", false}, 3);
  for (int i = 0; i < 10; ++i) {
    store.add_event({0, "a", 1.0 + i, "Scheduled", std::to_string(i), i == 9}, 3);
  }
  const std::vector<EventRecord> events = store.events("a", 0, 100);
  REQUIRE(events.size() == 3);
  CHECK(events[0].message == "7");
  CHECK(events[2].message == "9");
  CHECK(events[2].warning);
  CHECK(store.events("", 0, 100).size() == 4);
  CHECK(store.events("a", events[1].id, 100).size() == 1);
  CHECK(store.events("", 0, 2).size() == 2);
}

TEST_CASE("a newer form is refused, a file that is no database as well") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("state.db");
  {
    Database database(path, Database::Mode::write);
    database.execute("PRAGMA user_version = 99");
  }
  CHECK_THROWS_WITH_AS(JobStore(path, Database::Mode::write), doctest::Contains("newer adaptdl"),
                       Error);
  CHECK_THROWS_AS(JobStore(path, Database::Mode::read), Error);
  write_file_atomic(path, std::string(5000, 'x'));
  CHECK_THROWS_WITH_AS(JobStore(path, Database::Mode::write),
                       doctest::Contains("file is not a database"), Error);
}

TEST_CASE("a database of a version that did not keep the costs of starts is read, and extended") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("state.db");
  JobRecord job = some_job("a");
  JobStore(path, Database::Mode::write).add(job);
  Database(path, Database::Mode::write).execute("ALTER TABLE jobs DROP COLUMN start_cost_s");
  CHECK(JobStore(path, Database::Mode::read).find("a"));
  JobStore store(path, Database::Mode::write);
  job.start_cost_s = 2;
  store.update(job);
  CHECK(JobStore(path, Database::Mode::read).find("a")->start_cost_s == 2);
}

TEST_CASE("facts are kept") {
  const TemporaryDirectory folder;
  JobStore store(folder.file("state.db"), Database::Mode::write);
  CHECK(!store.value("port"));
  store.set_value("port", "1");
  store.set_value("port", "2");
  CHECK(store.value("port") == "2");
}

TEST_CASE(
    "a database that a killed service left without tables is refused by readers, and set up") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("state.db");
  Database(path, Database::Mode::write).execute("PRAGMA journal_mode = WAL");
  CHECK_THROWS_WITH_AS(JobStore(path, Database::Mode::read), doctest::Contains("adaptdl serve"),
                       Error);
  JobStore first(path, Database::Mode::write), second(path, Database::Mode::write);
  JobRecord job = some_job("a");
  first.add(job);
  CHECK(second.find("a"));
  CHECK(JobStore(path, Database::Mode::read).find("a"));
}

TEST_CASE("a write that fails has changed nothing, whatever part of it fails") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("state.db");
  JobStore store(path, Database::Mode::write);
  JobRecord job = some_job("a");
  const EventRecord event{0, "a", 1, "Submitted", "", false};
  store.add(job, &event);
  Database other(path, Database::Mode::write);
  other.execute(
      "CREATE TRIGGER broken BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'x'); END");
  JobRecord more = some_job("b");
  CHECK_THROWS_AS(store.add(more, &event), Error);
  CHECK(more.id == 0);
  CHECK(!store.find("b"));
  job.phase = "Running";
  CHECK_THROWS_AS(store.update(job, JobStore::Sync::now, &event), Error);
  CHECK(store.find("a")->phase == "Pending");
  other.execute("DROP TRIGGER broken");
  other.execute(
      "CREATE TRIGGER broken BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'x'); END");
  CHECK_THROWS_AS(store.remove("a"), Error);
  CHECK(store.find("a"));
  other.execute("DROP TRIGGER broken");
  store.remove("a");
  CHECK(!store.find("a"));
}
