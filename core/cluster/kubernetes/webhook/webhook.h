#pragma once

// The validating webhook: an HTTPS server that answers /validate with review_admission(). It tells
// the API server which authorities of its certificates to trust (certificate_keeper.h).

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/cluster/kubernetes/certificates/certificate_keeper.h"
#include "core/kube/client.h"
#include "core/net/http_server.h"

namespace adaptdl::kubernetes {

struct WebhookOptions {
  std::string name_space;  // of the Secret and of the service
  std::string address = "*";
  uint16_t port = 8443;                    // 0: any free one
  double certificate_life_s = 90 * 86400;  // > 0
  // PEM: whom a client's certificate must come from; none: clients need none.
  std::optional<std::string> client_authorities = {};
};

class Webhook {
 public:
  // Serves when the constructor returns. Copies `client`'s configuration for reviews, and borrows
  // `client` for the certificates. Throws Error if it cannot get certificates or cannot listen.
  Webhook(kube::Client& client, WebhookOptions options);
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  uint16_t port() const { return server_->port(); }
  // Whether the API server knows the authorities, at least since once. Any thread.
  bool ready() const { return ready_; }

 private:
  struct Review {
    std::string body;
    HttpReply reply;
  };

  HttpTls serving_tls(const ServerCertificates& certificates) const;
  void use(const ServerCertificates& certificates);
  void publish(const ServerCertificates& certificates);
  void take(HttpServerRequest request, HttpReply reply);
  void answer_reviews();
  HttpResponse answer(const std::string& body);
  std::optional<std::string> try_template(const std::string& job_namespace, const Json& pod);

  kube::Client& client_;
  Cancellation stop_;
  kube::Client reviewer_;  // with short timeouts, since a user waits
  const WebhookOptions options_;
  CertificateKeeper keeper_;
  ServerCertificates serving_;  // used by use() only
  std::atomic<bool> ready_ = false;
  std::mutex large_mutex_;  // while a large review is answered
  std::mutex mutex_;        // of reviews_, over_
  std::condition_variable wake_;
  std::deque<Review> reviews_;
  bool over_ = false;
  std::unique_ptr<HttpServer> server_;
  std::vector<std::thread> threads_;
};

}  // namespace adaptdl::kubernetes
