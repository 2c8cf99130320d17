#pragma once

// AdaptDL's supervisor: the scheduler's HTTP interface for training programs. Unmodified Python
// programs of AdaptDL 0.2.11 are its clients.
//
//   GET [/j/TOKEN]/healthz
//   GET [/j/TOKEN]/discover/NAMESPACE/NAME/GROUP[?timeout=SECONDS]
//       The addresses of the replicas by rank, as a JSON list, once all replicas of that generation
//       have one; 408 after the timeout (default 30 s, at most 300 s), or after at most 5 s if the
//       job is not known yet. After a 408 the client asks again at once; after any other error it
//       exits.
//   PUT [/j/TOKEN]/hints/NAMESPACE/NAME
//       Scheduling hints as JSON (core/job/hints.h); 200 without a body, 400 with the reason. The
//       program's training waits for the answer, so the supervisor answers before it uses the
//       hints. 404 for an unknown job: the client only warns, so the job is not affected, and its
//       log shows that its hints are not used. Hints that come too fast are limited by
//       hint_limiter.h: 200, too. 413 for more than kMaxHintsBytes.
//   PUT [/j/TOKEN]/leads/NAMESPACE/NAME/GROUP/RANK
//       Of that generation, the replica of that rank leads now, since the one that led is lost;
//       200, 400 or 404. Without a body. A leader tells it again from time to time.
// Requests for a job with a token need that token: 401 without a token, 403 with another. It is
// checked before a request is held, and before its body is read.
//
// Bounds, so that nobody can exhaust the supervisor. Of the server's connections the held requests
// of one job may use a quarter; those for unknown jobs, which anybody may send, together a tenth,
// and those of one client address a hundredth. A request beyond them is answered 408 at once with
// Retry-After: 1, because a Python client would exit after a 429 or 503. The server displaces
// connections without a request (http_server.h); if all requests are held, further clients wait.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/job/hints.h"
#include "core/net/http_server.h"

namespace adaptdl {

struct SupervisedJob {
  std::optional<std::string> token;  // none: every client may ask
};

// The supervisor's interface to the jobs. The supervisor calls all functions on its own thread,
// which serves no client meanwhile, so they must not block. Names are as the client sent them. The
// supervisor logs an Error from any of them: a poll continues to wait, hints are lost.
class SupervisorBackend {
 public:
  virtual ~SupervisorBackend() = default;

  // Empty if the job is not found, or does not exist yet.
  virtual std::optional<SupervisedJob> find(const std::string& job_namespace,
                                            const std::string& name) = 0;

  // The hosts or IPs of the replicas of generation `group` (ADAPTDL_NUM_RESTARTS), by rank. Empty
  // until all replicas have one, and for a generation that has ended.
  virtual std::optional<std::vector<std::string>> addresses(const std::string& job_namespace,
                                                            const std::string& name,
                                                            int64_t group) = 0;

  // Called with the hints of a job that find() has found, no faster than hint_limiter.h allows.
  // AdaptDL keeps to_json(hints) as status.train.
  virtual void hints(const std::string& job_namespace, const std::string& name,
                     const SchedulingHints& hints) = 0;

  // Called with what a replica of a job that find() has found tells; rank >= 0.
  virtual void leads(const std::string& /*job_namespace*/, const std::string& /*name*/,
                     int64_t /*group*/, int /*rank*/) {}
};

class Supervisor {
 public:
  // Serves when the constructor returns; throws as HttpServer does. Borrows `jobs` for its
  // lifetime. Clients exit if no server listens, so a restarted scheduler requests its previous
  // port. Lowers max_head and max_body to what clients need, and sets `admit`.
  Supervisor(SupervisorBackend& jobs, HttpServerOptions options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  uint16_t port() const;

  // Jobs, or addresses of their replicas, were added or changed. The supervisor soon checks waiting
  // polls again, on its thread. Many calls at once cause one check. Any thread, also while holding
  // locks that `jobs` takes.
  void changed();

  void set_tls(const HttpTls& tls);  // as HttpServer's

  // Answers 408 to waiting polls and ends the thread, at most `grace` later.
  void stop(Seconds grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl
