#include "core/cluster/local/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"

namespace adaptdl {

namespace {

constexpr int kBusyMs = 5000;

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database.database_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
    database.fail_here(sql);
  }
  statement_.reset(statement);
}

Statement& Statement::bind(int parameter, int64_t value) {
  ADAPTDL_CHECK(sqlite3_bind_int64(statement_.get(), parameter, value) == SQLITE_OK);
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  ADAPTDL_CHECK(sqlite3_bind_double(statement_.get(), parameter, value) == SQLITE_OK);
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view value) {
  if (sqlite3_bind_text64(statement_.get(), parameter, value.data(), value.size(), SQLITE_TRANSIENT,
                          SQLITE_UTF8) != SQLITE_OK) {
    database_->fail_here("bind text");
  }
  return *this;
}

Statement& Statement::bind_null(int parameter) {
  ADAPTDL_CHECK(sqlite3_bind_null(statement_.get(), parameter) == SQLITE_OK);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const char* sql = sqlite3_sql(statement_.get());
  try {
    database_->fail_here(sql);
  } catch (const Error&) {
    sqlite3_reset(statement_.get());
    throw;
  }
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return "";
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::optional<double> Statement::optional_real(int column) const {
  return is_null(column) ? std::nullopt : std::optional(real(column));
}

std::optional<int64_t> Statement::optional_integer(int column) const {
  return is_null(column) ? std::nullopt : std::optional(integer(column));
}

void Database::Close::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

Database::Database(const std::string& path, Mode mode) : path_(path) {
  // SQLite would create it with the umask's permissions, readable by other users.
  if (mode == Mode::write) open_file(path, O_RDWR | O_CREAT, 0600);
  sqlite3* database = nullptr;
  const int flags = (mode == Mode::write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) fail_here("open");
  sqlite3_busy_timeout(database, kBusyMs);
}

Database::~Database() = default;

void Database::execute(const char* sql) {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail_here(sql);
}

int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(database_.get());
}

int64_t Database::user_version() {
  Statement statement = prepare("PRAGMA user_version");
  ADAPTDL_CHECK(statement.step());
  return statement.integer(0);
}

void Database::fail_here(std::string_view what) const {
  const char* reason = database_ ? sqlite3_errmsg(database_.get()) : "out of memory";
  fail("{}: {}: {}", path_, what.substr(0, what.find('\n')), reason);
}

namespace {

// If a commit's sync fails, SQLite has appended the change to its log, where a power cut would find
// it whole. The next commit overwrites it: this one, of the schema's number as it is.
void overwrite_refused(Database& database) {
  const std::string same = fmt::format("PRAGMA user_version = {}", database.user_version());
  database.execute("PRAGMA synchronous = FULL");
  database.execute(same.c_str());
}

}  // namespace

Transaction::Transaction(Database& database) : database_(&database) {
  database.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  try {
    database_->execute("ROLLBACK");
  } catch (const Error&) {  // SQLite has rolled back itself, as after a full disk
  }
  if (!committing_) return;
  try {
    overwrite_refused(*database_);
  } catch (const std::exception& error) {  // the next change that is stored does it
    log_warning("{}", error.what());
  }
}

void Transaction::commit() {
  committing_ = true;
  database_->execute("COMMIT");
  database_ = nullptr;
}

}  // namespace adaptdl
