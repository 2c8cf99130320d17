#include "core/cluster/local/job_requests.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

LocalPaths paths_in(const std::string& folder) {
  LocalPaths paths;
  paths.folder = folder;
  paths.database = join_path(folder, "state.db");
  paths.jobs = join_path(folder, "jobs");
  make_directories(paths.jobs);
  return paths;
}

Json spec_of(const std::string& name) {
  return {{"format", 1}, {"kind", "command"}, {"program", "true"}, {"name", name}};
}

// What the service answers requests with, on a disk that can be made to refuse.
struct Desk {
  TemporaryDirectory folder;
  LocalPaths paths = paths_in(folder.path());
  Machine machine{.name = "here", .slots = 4, .cores = 4};
  ActiveJobs jobs{paths.database};
  LocalSupervisor supervisor;
  JobRequests requests{jobs, supervisor, machine, paths};

  // `what`: INSERT, UPDATE or DELETE of a job; an earlier refusal ends.
  void refuse(const std::string& what) {
    Database other(paths.database, Database::Mode::write);
    other.execute("DROP TRIGGER IF EXISTS broken");
    if (what.empty()) return;
    other.execute(("CREATE TRIGGER broken BEFORE " + what +
                   " ON jobs BEGIN SELECT RAISE(ABORT, 'the disk is broken'); END")
                      .c_str());
  }
  void submit(const std::string& name) { requests.carry_out("submit", {{"spec", spec_of(name)}}); }
  Json ask(const std::string& kind, const std::string& name) {
    return requests.carry_out(kind, {{"name", name}, {"min", 2}, {"max", 3}});
  }
  JobRecord stored(const std::string& name) {
    const auto record = jobs.store().find(name);
    REQUIRE(record);
    return *record;
  }
  std::vector<std::string> folders() const { return list_directory(paths.jobs); }
};

}  // namespace

TEST_CASE("a submission that cannot be stored leaves nothing, and can be made again") {
  Desk desk;
  desk.refuse("INSERT");
  CHECK_THROWS_WITH_AS(desk.submit("a"), doctest::Contains("the disk is broken"), Error);
  CHECK(desk.folders().empty());
  CHECK(desk.jobs.size() == 0);
  CHECK(!desk.jobs.take_changed());
  desk.refuse("");
  desk.submit("a");
  CHECK(desk.folders() == std::vector<std::string>{"a"});
  CHECK(desk.stored("a").token.size() == 32);
}

TEST_CASE("a submission takes neither a name, nor a folder, that is somebody else's") {
  Desk desk;
  const std::string theirs = desk.folder.file("thesis");
  for (const std::string& place : {theirs, desk.paths.job("theirs"), desk.paths.job("a/x")}) {
    make_directories(place);
    const Json request = {{"spec", spec_of("b")}, {"project", place}};
    CHECK_THROWS_WITH_AS(desk.requests.carry_out("submit", request),
                         doctest::Contains("not a submission folder"), Error);
    CHECK(is_directory(place));
  }
  write_file_atomic(join_path(desk.paths.job("theirs"), "notes"), "text");
  CHECK_THROWS_WITH_AS(desk.submit("theirs"), doctest::Contains("belongs to no known job"), Error);
  CHECK(read_file(join_path(desk.paths.job("theirs"), "notes"), 10) == "text");

  desk.submit("b");
  const std::string token = desk.stored("b").token;
  CHECK_THROWS_WITH_AS(desk.submit("b"), doctest::Contains("already exists"), Error);
  CHECK(path_exists(join_path(desk.paths.job("b"), "job.json")));
  CHECK(desk.stored("b").token == token);
}

TEST_CASE("a change that cannot be stored has not happened") {
  Desk desk;
  desk.submit("a");
  desk.submit("b");
  desk.ask("suspend", "b");
  ActiveJob& a = *desk.jobs.find("a");
  a.state.wanted = a.record.replicas = 1;
  desk.jobs.take_changed();
  desk.refuse("UPDATE");
  for (const auto& [kind, name] : {std::pair("suspend", "a"), {"scale", "a"}, {"resume", "b"}}) {
    CAPTURE(kind);
    CHECK_THROWS_WITH_AS(desk.ask(kind, name), doctest::Contains("nothing has changed"), Error);
  }
  CHECK(!a.record.suspended);
  CHECK(a.state.wanted == 1);
  CHECK(a.record.replicas == 1);
  CHECK(a.record.min_replicas == 0);
  CHECK(desk.jobs.find("b")->record.suspended);
  CHECK(!desk.jobs.take_changed());
  CHECK(desk.jobs.store().events("a", 0, 9).size() == 1);  // its submission

  desk.refuse("");
  desk.ask("suspend", "a");
  CHECK(desk.stored("a").suspended);
  CHECK(a.state.wanted == 0);
}

TEST_CASE("a job is stopped also if its cancellation cannot be stored yet") {
  Desk desk;
  desk.submit("a");
  ActiveJob& job = *desk.jobs.find("a");
  job.state.wanted = job.record.replicas = 1;
  desk.refuse("UPDATE");
  CHECK_THROWS_WITH_AS(desk.ask("cancel", "a"), doctest::Contains("is not on disk yet"), Error);
  CHECK(job.state.cancelled);
  CHECK(job.state.wanted == 0);
  CHECK(!desk.stored("a").cancelled);
  CHECK_THROWS_AS(desk.ask("cancel", "a"), Error);  // still not
  desk.refuse("");
  desk.jobs.settle();
  CHECK(desk.stored("a").cancelled);
  CHECK(desk.jobs.retry_at() == TimePoint::max());
}

TEST_CASE("who cancels or deletes a job that runs elsewhere hears where") {
  Desk desk;
  desk.submit("a");
  ActiveJob& job = *desk.jobs.find("a");
  job.record.reason = kRunsElsewhere;
  job.record.message = "its runner runs on far-away";
  CHECK(desk.ask("cancel", "a")["message"] == "its runner runs on far-away");
  CHECK_THROWS_WITH_AS(desk.ask("delete", "a"), "job a has not ended: its runner runs on far-away",
                       Error);
}

TEST_CASE("a job that has ended stays so, also while its end is not on disk") {
  Desk desk;
  desk.submit("a");
  desk.refuse("UPDATE");
  desk.jobs.end(*desk.jobs.find("a"), "Succeeded", "", "", 0);
  CHECK(desk.jobs.problem().find("the disk is broken") != std::string::npos);
  desk.jobs.settle();
  REQUIRE(desk.jobs.find("a") != nullptr);  // to be written
  desk.refuse("");
  for (const char* kind : {"cancel", "suspend", "scale", "delete"}) {
    CAPTURE(kind);
    CHECK_THROWS_WITH_AS(desk.ask(kind, "a"), doctest::Contains("has ended"), Error);
  }
  desk.jobs.save(*desk.jobs.find("a"));
  desk.jobs.settle();
  CHECK(desk.jobs.find("a") == nullptr);
  const JobRecord job = desk.stored("a");
  CHECK(job.phase == "Succeeded");
  CHECK(!job.cancelled);
  CHECK(job.exit_code == 0);
}

TEST_CASE("a job is deleted with its folder, or not at all") {
  Desk desk;
  desk.submit("a");
  CHECK_THROWS_WITH_AS(desk.ask("delete", "a"), doctest::Contains("has not ended"), Error);
  desk.jobs.end(*desk.jobs.find("a"), "Failed", "", "", 1);
  desk.jobs.settle();
  desk.refuse("DELETE");
  CHECK_THROWS_WITH_AS(desk.ask("delete", "a"), doctest::Contains("the disk is broken"), Error);
  CHECK(desk.stored("a").phase == "Failed");
  CHECK(path_exists(join_path(desk.paths.job("a"), "job.json")));
  CHECK(desk.folders() == std::vector<std::string>{"a"});
  desk.refuse("");
  const Json answer = desk.ask("delete", "a");
  CHECK(!desk.jobs.store().find("a"));
  CHECK(desk.jobs.store().events("a", 0, 9).empty());
  CHECK(!path_exists(desk.paths.job("a")));
  CHECK(path_exists(join_path(answer.at("folder").get<std::string>(), "job.json")));
  CHECK_THROWS_WITH_AS(desk.ask("delete", "a"), doctest::Contains("not found"), Error);
}
