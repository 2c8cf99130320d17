#include "core/cluster/kubernetes/operator.h"

#include <optional>
#include <stop_token>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/crypto.h"
#include "core/base/log.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/cluster/kubernetes/jobs/supervisor_backend.h"
#include "core/cluster/kubernetes/leader_election.h"
#include "core/cluster/kubernetes/metrics.h"
#include "core/cluster/kubernetes/secure_supervisor.h"
#include "core/cluster/kubernetes/webhook/webhook.h"
#include "core/formats/base64.h"
#include "core/formats/json_fields.h"
#include "core/net/http_server.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kEventGap = 1;      // s between rounds when jobs come and go
constexpr double kPolicyTime = 0.5;  // s that one round may search, at most
constexpr Seconds kStopInterval{0.2};
constexpr size_t kMetricsBody = 1024;     // bytes; requests for metrics have no body
constexpr int kMetricsConnections = 100;  // probes and a few scrapers

// The URL of a listening address, reachable at least from this machine.
std::string url_at(const char* scheme, const std::string& address, uint16_t port) {
  const bool any = address == "*" || address == "0.0.0.0" || address == "::";
  return fmt::format("{}://{}:{}", scheme, any ? "127.0.0.1" : url_host(address), port);
}

// The key that job tokens are derived from; the first operator creates it. The base64 text itself
// is the key.
std::string read_key(kube::Client& client, const std::string& name_space) {
  const kube::Resource secret = kube::kSecrets.in(name_space, kKeySecret);
  for (;;) {
    if (const auto found = client.find(secret)) {
      const std::string key = text_at_pointer(*found, "/data/key");
      if (!key.empty()) return key;
      fail(
          "Secret {}/{} has no data.key, from which job tokens are derived; delete the Secret and "
          "restart the operators",
          name_space, kKeySecret);
    }
    try {
      client.create(kube::kSecrets.in(name_space),
                    {{"apiVersion", "v1"},
                     {"kind", "Secret"},
                     {"type", "Opaque"},
                     {"metadata",
                      {{"name", kKeySecret},
                       {"namespace", name_space},
                       {"labels", {{kLabelInstalled, name_space}}}}},
                     {"data", {{"key", to_base64(to_hex(random_bytes(32)))}}}});
    } catch (const kube::ApiError& error) {
      if (!error.already_exists()) throw;
    }
  }
}

// Runs in its own thread while this operator leads; the controller never waits for it.
void expand(kube::Client& client, const ClusterCache& cache, ExpanderOptions options,
            const Cancellation& stop) {
  const Seconds pause(options.interval_s);
  NodeExpander expander(client, cache, std::move(options));
  do {
    try {
      expander.look();
    } catch (const Cancelled&) {
      return;
    } catch (const std::exception& error) {
      log_warning("expander: {}", error.what());
    }
  } while (!stop.wait_for(pause));
}

// Removes placeholders from a time when the expander was enabled: they would still request nodes.
void remove_placeholders_once(kube::Client& client, const std::string& name_space, Seconds pause,
                              const Cancellation& stop) {
  do {
    try {
      return remove_placeholders(client, name_space);
    } catch (const Cancelled&) {
      return;
    } catch (const std::exception& error) {
      log_warning("expander: {}", error.what());
    }
  } while (!stop.wait_for(pause));
}

}  // namespace

struct Operator::Impl {
  Impl(kube::Client& client, OperatorOptions given, const Cancellation& stop)
      : client(client),
        acting(client, [this] { return acts(); }),
        options(std::move(given)),
        stop(stop),
        key(read_key(client, options.name_space)),
        policy(make_policy(options.policy, options.policy_options)),
        cache(
            client,
            {[this](const std::string& id) { job_changed(id); }, [this] { controller_changed(); }},
            options.accelerator_label, options.job_namespaces),
        supervised(
            cache, key, [this](const std::string& id, Json train) { hints(id, std::move(train)); },
            [this](const std::string& id, GroupLeader leader) { leads(id, leader); }),
        metrics_server({.address = options.address,
                        .port = options.metrics_port,
                        .max_body = kMetricsBody,
                        .max_connections = kMetricsConnections},
                       [this](const HttpServerRequest& request, const HttpReply& reply) {
                         reply.send(answer(request));
                       }) {
    if (options.parts.supervisor) {
      supervisor.emplace(supervised, HttpServerOptions{.address = options.address,
                                                       .port = options.supervisor_port});
    }
    if (options.parts.supervisor && options.secure_supervisor_port) {
      secure_supervisor.emplace(
          client, supervised,
          SecureSupervisorOptions{options.name_space, options.address,
                                  *options.secure_supervisor_port, options.certificate_life_s});
    }
    ControllerOptions controlled;
    controlled.reconciles = options.parts.controller;
    controlled.allocates = options.parts.allocator;
    controlled.pods = options.pods;
    controlled.pods.supervisor_url = url();
    // Only this process's own certificates are known, which all operators of a namespace share.
    if (secure_supervisor) {
      controlled.pods.secure_supervisor_url = secure_url();
      controlled.pods.supervisor_authorities = [this] { return secure_supervisor->authorities(); };
    }
    controlled.allocator.interval_s = options.interval_s;
    controlled.allocator.event_gap_s = kEventGap;
    controlled.allocator.policy_limit_s = kPolicyTime;
    controlled.identity = options.identity;
    controlled.pods.keys = [this](const JobObject& job) { return job_keys(key, job); };
    if (options.parts.webhook && options.webhook_port) {
      WebhookOptions serving{options.name_space, options.address, *options.webhook_port,
                             options.certificate_life_s, options.webhook_client_authorities};
      webhook = std::make_unique<Webhook>(client, std::move(serving));
    }
    controller =
        std::make_unique<Controller>(acting, client, cache, *policy, std::move(controlled));
    ready = true;
  }

  std::string url() const {
    if (!options.supervisor_url.empty()) return options.supervisor_url;
    return supervisor ? url_at("http", options.address, supervisor->port()) : "";
  }

  std::string secure_url() const {
    if (!secure_supervisor) return "";
    if (!options.secure_supervisor_url.empty()) return options.secure_supervisor_url;
    return url_at("https", options.address, secure_supervisor->port());
  }

  void job_changed(const std::string& id) {
    if (!ready) return;  // run() starts with all jobs
    controller->job_changed(id);
    if (supervisor) supervisor->changed();
    if (secure_supervisor) secure_supervisor->changed();
  }

  void controller_changed() {
    if (ready) controller->capacity_changed();
  }

  void hints(const std::string& id, Json train) {
    if (ready) controller->hints(id, std::move(train));  // else dropped: programs send them again
  }

  void leads(const std::string& id, GroupLeader leader) {
    if (ready) controller->leads(id, leader);
  }

  // Whether this process leads, at this moment.
  bool acts() const {
    const std::function<bool()>* goes_on = mandate;
    return goes_on != nullptr && (*goes_on)();
  }

  HttpResponse answer(const HttpServerRequest& request) {
    if (request.path == "/livez" || request.path == "/healthz") return text_response(200, "ok");
    if (!ready) return text_response(503, "the operator is starting");
    if (request.path == "/readyz") {
      if (!cache.synced()) return text_response(503, "the watches have not synced yet");
      if (webhook && !webhook->ready())
        return text_response(503, "the webhook is not registered yet");
      return text_response(200, "ok");
    }
    if (request.path == "/metrics" && options.parts.metrics) {
      return {.status = 200,
              .headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
              .body = metrics_text(cache.jobs(), controller->figures(), mandate != nullptr,
                                   cache.problem().empty())};
    }
    return text_response(404, options.parts.metrics
                                  ? "not found; the paths are /livez, /readyz and /metrics"
                                  : "not found; the paths are /livez and /readyz");
  }

  // Answers programs until `over` or the end of this operator.
  void wait(const std::function<bool()>& over) {
    while (!stop.cancelled() && !over()) {
      stop.wait_for(kStopInterval);
      controller->write_noted();
    }
  }

  void lead(const std::function<bool()>& goes_on) {
    mandate = &goes_on;
    struct EndsMandate {
      Impl& impl;
      ~EndsMandate() { impl.mandate = nullptr; }
    } const after_all_threads_have_ended{*this};
    std::jthread expander;
    if (options.parts.expander) {
      ExpanderOptions expanding = options.expander;
      expanding.name_space = options.name_space;
      expanding.pods = options.pods;
      expander = std::jthread([this, expanding](const std::stop_token& ends) {
        Cancellation over;
        const std::stop_callback end(ends, [&over] { over.cancel(); });
        if (expanding.max_nodes > 0) {
          expand(acting, cache, expanding, over);
        } else {
          remove_placeholders_once(acting, expanding.name_space, Seconds(expanding.interval_s),
                                   over);
        }
      });
    }
    controller->run(goes_on);
  }

  kube::Client& client;
  kube::Client acting;  // changes what only the leader may change
  const OperatorOptions options;
  const Cancellation& stop;
  const std::string key;
  const std::unique_ptr<Policy> policy;
  std::atomic<bool> ready = false;
  std::atomic<const std::function<bool()>*> mandate = nullptr;  // while lead() runs
  std::unique_ptr<Controller> controller;
  ClusterCache cache;
  KubernetesSupervisorBackend supervised;
  std::optional<Supervisor> supervisor;
  std::optional<SecureSupervisor> secure_supervisor;
  std::unique_ptr<Webhook> webhook;  // null unless requested
  HttpServer metrics_server;
};

const char* OperatorParts::lease() const {
  return controller ? kLeaseName : allocator ? kAllocatorLease : kExpanderLease;
}

Operator::Operator(kube::Client& client, OperatorOptions options, const Cancellation& stop)
    : impl_(std::make_unique<Impl>(client, std::move(options), stop)) {}

Operator::~Operator() {
  if (impl_->supervisor) impl_->supervisor->stop(Seconds(1));
  if (impl_->secure_supervisor) impl_->secure_supervisor->stop(Seconds(1));
}

void Operator::run() {
  if (!impl_->options.parts.decides()) return impl_->wait([] { return false; });
  LeaderElection election(impl_->client, impl_->options.name_space, impl_->options.parts.lease(),
                          {.identity = impl_->options.identity});
  impl_->wait([&] { return impl_->cache.synced() && election.leads(); });
  if (impl_->stop.cancelled()) return;
  log_info("{} leads; supervisor at {}", impl_->options.identity, impl_->url());
  impl_->lead([&] { return !impl_->stop.cancelled() && election.leads(); });
  if (!impl_->stop.cancelled()) fail("{} is no longer the leader", impl_->options.identity);
}

std::string Operator::supervisor_url() const {
  return impl_->url();
}

std::string Operator::secure_supervisor_url() const {
  return impl_->secure_url();
}

std::string Operator::metrics_url() const {
  return url_at("http", impl_->options.address, impl_->metrics_server.port());
}

}  // namespace adaptdl::kubernetes
