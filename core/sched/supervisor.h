#pragma once

// AdaptDL's supervisor: what training programs ask of a scheduler over HTTP. Unmodified Python
// programs of AdaptDL 0.2.11 are its clients.
//
//   GET [/j/TOKEN]/healthz
//   GET [/j/TOKEN]/discover/NAMESPACE/NAME/GROUP[?timeout=SECONDS]
//       The addresses of the replicas by rank, as a JSON list, once all of that generation have
//       one; 408 if that is not so within the time (default 30 s, at most 300), whether or not the
//       job is known yet: the client then asks again at once, and takes any other answer as the
//       end.
//   PUT [/j/TOKEN]/hints/NAMESPACE/NAME
//       Scheduling hints as JSON (core/job/hints.h); 200 without a body, 400 with the reason. The
//       program's training waits for the answer, so it is sent first and the hints are used after.
//       404 for a job that is not known: the client only warns, so it costs the job nothing, and
//       the program's log shows that nobody uses its hints.
// A job that has a token is served only under it: 401 without one, 403 with another.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/job/hints.h"
#include "core/net/http_server.h"

namespace adaptdl {

struct SupervisedJob {
  std::optional<std::string> token;  // none: whoever can connect may ask
};

// What the supervisor asks of whoever knows the jobs. All are called on the supervisor's own
// thread, which serves nobody meanwhile: they look something up or note it down, and wait for
// nothing. Names are as the client sent them. An Error from any is logged: a poll goes on waiting,
// hints are lost.
class SupervisorBackend {
 public:
  virtual ~SupervisorBackend() = default;

  // Nothing: there is no such job, or not yet.
  virtual std::optional<SupervisedJob> find(const std::string& job_namespace,
                                            const std::string& name) = 0;

  // The hosts or IPs of the replicas of generation `group` (ADAPTDL_NUM_RESTARTS), by rank. Nothing
  // until all have one, and for a generation that is over.
  virtual std::optional<std::vector<std::string>> addresses(const std::string& job_namespace,
                                                            const std::string& name,
                                                            int64_t group) = 0;

  // A job that was found sends these. to_json(hints) is what AdaptDL keeps as status.train.
  virtual void hints(const std::string& job_namespace, const std::string& name,
                     const SchedulingHints& hints) = 0;
};

class Supervisor {
 public:
  // Serves when it returns; throws as HttpServer does. Borrows `jobs` for its life. Clients exit
  // when nobody listens, so a scheduler that starts again asks for the port that it had.
  Supervisor(SupervisorBackend& jobs, const HttpServerOptions& options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  uint16_t port() const;

  // Jobs, or addresses of their replicas, have come or changed: those who wait are looked at again,
  // soon and on the supervisor's thread. Many calls at once cost one look. Any thread, also with
  // locks held that `jobs` takes.
  void changed();

  void set_tls(const HttpTls& tls);  // as HttpServer's

  // Answers 408 to those who wait, and ends the thread; at most `grace` later.
  void stop(Seconds grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl
