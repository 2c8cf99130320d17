#include "core/cluster/local/store.h"

#include "core/base/error.h"
#include "core/formats/json.h"

namespace adaptdl::local {

namespace {

constexpr const char* kColumns =
    "id, name, spec, token, phase, reason, message, why, submitted_s, started_s, ended_s, replicas,"
    " slots, restarts, starts, failures, service_s, min_replicas, max_replicas, suspended,"
    " cancelled, hints, exit_code";

// The same columns; the long ones are empty, but for the hints of a job with replicas.
constexpr const char* kBriefColumns =
    "id, name, '', '', phase, reason, '', '', submitted_s, started_s, ended_s, replicas, slots,"
    " restarts, starts, failures, service_s, min_replicas, max_replicas, suspended, cancelled,"
    " CASE WHEN replicas > 0 THEN hints ELSE '' END, exit_code";

// A database of an earlier version lacks the jobs' column start_cost_s until a service of this one
// opens it. Earlier versions use one that has it, so the number stays.
constexpr const char* kSchema1 = R"sql(
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, spec TEXT NOT NULL,
  token TEXT NOT NULL, phase TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL,
  why TEXT NOT NULL, submitted_s REAL NOT NULL, started_s REAL, ended_s REAL,
  replicas INTEGER NOT NULL, slots TEXT NOT NULL, restarts INTEGER NOT NULL,
  starts INTEGER NOT NULL, failures INTEGER NOT NULL, service_s REAL NOT NULL,
  min_replicas INTEGER NOT NULL, max_replicas INTEGER NOT NULL, suspended INTEGER NOT NULL,
  cancelled INTEGER NOT NULL, hints TEXT NOT NULL, exit_code INTEGER, start_cost_s REAL) STRICT;
CREATE INDEX jobs_unfinished ON jobs (id) WHERE ended_s IS NULL;
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, time_s REAL NOT NULL,
  kind TEXT NOT NULL, message TEXT NOT NULL, warning INTEGER NOT NULL) STRICT;
CREATE INDEX events_of_job ON events (job, id);
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
PRAGMA user_version = 1;
)sql";

// After one of these lists start_cost_s is column 23.
JobRecord job_of(const Statement& row, const std::string& path) {
  JobRecord job;
  job.id = row.integer(0);
  job.name = row.text(1);
  job.spec = row.text(2);
  job.token = row.text(3);
  job.phase = row.text(4);
  job.reason = row.text(5);
  job.message = row.text(6);
  job.why = row.text(7);
  job.submitted_s = row.real(8);
  job.started_s = row.optional_real(9);
  job.ended_s = row.optional_real(10);
  job.replicas = static_cast<int>(row.integer(11));
  const std::string slots = row.text(12);
  if (slots != "[]") {
    job.slots = json_get<std::vector<int>>({{"slots", parse_json(slots, path)}}, "slots", path);
  }
  job.restarts = static_cast<int>(row.integer(13));
  job.starts = static_cast<int>(row.integer(14));
  job.failures = static_cast<int>(row.integer(15));
  job.service_s = row.real(16);
  job.min_replicas = static_cast<int>(row.integer(17));
  job.max_replicas = static_cast<int>(row.integer(18));
  job.suspended = row.integer(19) != 0;
  job.cancelled = row.integer(20) != 0;
  job.hints = row.text(21);
  job.exit_code = row.optional_integer(22);
  job.start_cost_s = row.optional_real(23);
  return job;
}

// Every column but id and start_cost_s, as parameters 1 to 22.
void bind_job(Statement& statement, const JobRecord& job) {
  const auto text = [&](int parameter, std::string_view value) {
    statement.bind(parameter, value);
  };
  const auto number = [&](int parameter, int64_t value) { statement.bind(parameter, value); };
  text(1, job.name);
  text(2, job.spec);
  text(3, job.token);
  text(4, job.phase);
  text(5, job.reason);
  text(6, job.message);
  text(7, job.why);
  statement.bind(8, job.submitted_s).bind(9, job.started_s).bind(10, job.ended_s);
  number(11, job.replicas);
  text(12, dump_json(job.slots));
  number(13, job.restarts);
  number(14, job.starts);
  number(15, job.failures);
  statement.bind(16, job.service_s);
  number(17, job.min_replicas);
  number(18, job.max_replicas);
  number(19, job.suspended);
  number(20, job.cancelled);
  text(21, job.hints);
  statement.bind(22, job.exit_code);
}

}  // namespace

JobStore::JobStore(const std::string& path, Database::Mode mode) : database_(path, mode) {
  if (mode == Database::Mode::write) {
    // Writes do not block readers, and a commit of mere progress need not wait for the disk
    // (write()).
    database_.execute("PRAGMA journal_mode = WAL");
    // Rows are written one at a time, by key: the default cache of 2 MB would be most of the
    // service's memory.
    database_.execute("PRAGMA cache_size = -256");
  } else {
    database_.execute("PRAGMA mmap_size = 1073741824");  // thousands of jobs without a read() each
  }
  const int64_t version = database_.user_version();
  if (version > kSchema) {
    fail(
        "{}: written by a newer adaptdl (schema {}, this version supports {}); use the newer "
        "version, or set ADAPTDL_LOCAL_STATE to another folder",
        path, version, kSchema);
  }
  if (mode == Database::Mode::read) {
    if (version < kSchema) {
      fail("{}: has no tables; the service creates them: run `adaptdl serve`", path);
    }
    if (!has_start_cost()) start_cost_ = "NULL";
    return;
  }
  if (version == kSchema && has_start_cost()) return;
  // Another service may have done it meanwhile.
  write(Sync::now, [&] {
    if (database_.user_version() == 0) database_.execute(kSchema1);
    if (!has_start_cost()) database_.execute("ALTER TABLE jobs ADD COLUMN start_cost_s REAL");
  });
}

bool JobStore::has_start_cost() {
  return database_.prepare("SELECT 1 FROM pragma_table_info('jobs') WHERE name = 'start_cost_s'")
      .step();
}

void JobStore::write(Sync sync, const std::function<void()>& statements) {
  // In WAL mode, FULL syncs the log at the commit, with what earlier commits left in it.
  database_.execute(sync == Sync::now ? "PRAGMA synchronous = FULL"
                                      : "PRAGMA synchronous = NORMAL");
  Transaction transaction(database_);
  statements();
  transaction.commit();
}

void JobStore::add(JobRecord& job, const EventRecord* event) {
  if (find(job.name)) {
    fail("job {} already exists; delete it with `adaptdl delete {}` once it has ended", job.name,
         job.name);
  }
  static const std::string sql =
      fmt::format("INSERT INTO jobs ({}) VALUES (NULL, {})", kColumns,
                  "?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22");
  int64_t id = 0;
  write(Sync::now, [&] {
    Statement statement = database_.prepare(sql);
    bind_job(statement, job);
    statement.run();
    id = database_.last_insert_id();
    if (event != nullptr) insert(*event, kKeptEvents);
  });
  job.id = id;
}

void JobStore::update(const JobRecord& job, Sync sync, const EventRecord* event) {
  write(sync, [&] {
    Statement statement = database_.prepare(
        "UPDATE jobs SET name=?1, spec=?2, token=?3, phase=?4, reason=?5, message=?6, why=?7,"
        " submitted_s=?8, started_s=?9, ended_s=?10, replicas=?11, slots=?12, restarts=?13,"
        " starts=?14, failures=?15, service_s=?16, min_replicas=?17, max_replicas=?18,"
        " suspended=?19, cancelled=?20, hints=?21, exit_code=?22, start_cost_s=?24 WHERE id=?23");
    bind_job(statement, job);
    statement.bind(23, job.id).bind(24, job.start_cost_s).run();
    if (event != nullptr) insert(*event, kKeptEvents);
  });
}

void JobStore::remove(const std::string& name) {
  write(Sync::now, [&] {
    database_.prepare("DELETE FROM jobs WHERE name=?").bind(1, std::string_view(name)).run();
    database_.prepare("DELETE FROM events WHERE job=?").bind(1, std::string_view(name)).run();
  });
}

std::optional<JobRecord> JobStore::find(const std::string& name) {
  Statement row =
      database_.prepare(fmt::format("SELECT {}, {} FROM jobs WHERE name=?", kColumns, start_cost_));
  row.bind(1, std::string_view(name));
  if (!row.step()) return std::nullopt;
  return job_of(row, database_.path());
}

void JobStore::select(const char* columns, const char* condition,
                      const std::function<void(JobRecord&)>& each) {
  Statement row = database_.prepare(
      fmt::format("SELECT {}, {} FROM jobs {} ORDER BY id", columns, start_cost_, condition));
  while (row.step()) {
    JobRecord job = job_of(row, database_.path());
    each(job);
  }
}

void JobStore::unfinished(const std::function<void(JobRecord&)>& each) {
  select(kColumns, "WHERE ended_s IS NULL", each);
}

void JobStore::all(const std::function<void(JobRecord&)>& each) {
  select(kColumns, "", each);
}

void JobStore::all_briefly(const std::function<void(JobRecord&)>& each) {
  select(kBriefColumns, "", each);
}

void JobStore::succeeded(int most, const std::function<void(JobRecord&)>& each) {
  select(kColumns,
         fmt::format("WHERE id IN (SELECT id FROM jobs WHERE phase = 'Succeeded' "
                     "ORDER BY ended_s DESC LIMIT {})",
                     most)
             .c_str(),
         each);
}

std::vector<std::string> JobStore::names(const std::string& prefix, int most) {
  Statement row = database_.prepare(
      "SELECT name FROM jobs WHERE substr(name, 1, length(?1)) = ?1 ORDER BY id DESC LIMIT ?2");
  row.bind(1, std::string_view(prefix)).bind(2, int64_t{most});
  std::vector<std::string> names;
  while (row.step()) names.push_back(row.text(0));
  return names;
}

void JobStore::add_event(const EventRecord& event, int keep) {
  write(Sync::later, [&] { insert(event, keep); });
}

void JobStore::insert(const EventRecord& event, int keep) {
  database_.prepare("INSERT INTO events (job, time_s, kind, message, warning) VALUES (?,?,?,?,?)")
      .bind(1, std::string_view(event.job))
      .bind(2, event.time_s)
      .bind(3, std::string_view(event.kind))
      .bind(4, std::string_view(event.message))
      .bind(5, int64_t{event.warning})
      .run();
  database_
      .prepare(
          "DELETE FROM events WHERE job=?1 AND id <= (SELECT id FROM events WHERE job=?1"
          " ORDER BY id DESC LIMIT 1 OFFSET ?2)")
      .bind(1, std::string_view(event.job))
      .bind(2, int64_t{keep})
      .run();
}

std::vector<EventRecord> JobStore::events(const std::string& job, int64_t after, int most) {
  Statement row = database_.prepare(
      job.empty() ? "SELECT id, job, time_s, kind, message, warning FROM events WHERE id > ?1"
                    " ORDER BY id LIMIT ?2"
                  : "SELECT id, job, time_s, kind, message, warning FROM events WHERE id > ?1 AND"
                    " job = ?3 ORDER BY id LIMIT ?2");
  row.bind(1, after).bind(2, int64_t{most});
  if (!job.empty()) row.bind(3, std::string_view(job));
  std::vector<EventRecord> events;
  while (row.step()) {
    events.push_back(
        {row.integer(0), row.text(1), row.real(2), row.text(3), row.text(4), row.integer(5) != 0});
  }
  return events;
}

std::optional<std::string> JobStore::value(const std::string& key) {
  Statement row = database_.prepare("SELECT value FROM facts WHERE key=?");
  row.bind(1, std::string_view(key));
  return row.step() ? std::optional(row.text(0)) : std::nullopt;
}

void JobStore::set_value(const std::string& key, const std::string& value) {
  write(Sync::now, [&] {
    database_.prepare("INSERT OR REPLACE INTO facts VALUES (?,?)")
        .bind(1, std::string_view(key))
        .bind(2, std::string_view(value))
        .run();
  });
}

}  // namespace adaptdl::local
