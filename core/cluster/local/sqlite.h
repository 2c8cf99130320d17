#pragma once

// SQLite as this project uses it: one connection, prepared statements, transactions. Every function
// throws Error "PATH: operation: SQLite's reason", also on a full disk; the database is then as it
// was before the transaction.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace adaptdl {

class Database;

// A prepared statement. As in SQLite, parameters are counted from 1 and columns from 0. Valid as
// long as its Database; one thread at a time.
class Statement {
 public:
  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, std::string_view value);
  Statement& bind_null(int parameter);
  template <typename T>
  Statement& bind(int parameter, const std::optional<T>& value) {
    return value ? bind(parameter, *value) : bind_null(parameter);
  }

  bool step();  // true: there is a row
  void run();   // to the end, ignoring rows; then it can be bound again
  void reset();

  bool is_null(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::optional<double> optional_real(int column) const;
  std::optional<int64_t> optional_integer(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(Database& database, std::string_view sql);

  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One thread at a time.
class Database {
 public:
  enum class Mode { read, write };

  // Opens the file; `write` creates it (0600) if missing. Waits up to 5 s for other processes.
  Database(const std::string& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  void execute(const char* sql);  // any number of statements without parameters
  Statement prepare(std::string_view sql) { return Statement(*this, sql); }
  int64_t last_insert_id() const;
  // PRAGMA user_version, for the schema's number.
  int64_t user_version();

 private:
  friend class Statement;
  [[noreturn]] void fail_here(std::string_view what) const;

  std::string path_;
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

// BEGIN IMMEDIATE ... COMMIT; rolled back unless committed. A change whose commit has failed stays
// undone, after a power cut, too.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database* database_;
  bool committing_ = false;
};

}  // namespace adaptdl
