#include "core/cluster/kubernetes/webhook/webhook.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/cluster/kubernetes/webhook/admission.h"
#include "core/formats/base64.h"
#include "core/kube/answer.h"

namespace adaptdl::kubernetes {

namespace {

constexpr Seconds kReviewTime{4.0};      // the API server waits for 10 s
constexpr int kReviewers = 4;            // threads
constexpr size_t kMostWaiting = 256;     // reviews; further ones are answered with 503
constexpr size_t kMaxReview = 8u << 20;  // two versions of an object, each below the API's limit
// Larger ones are parsed one after the other: that may take thirty times their length.
constexpr size_t kLargeReview = 1u << 20;
// An API server needs a few. Any pod may connect and send reviews, so this bounds their memory.
constexpr int kMaxConnections = 64;
constexpr double kAuthorityLives = 4;  // times the life of what it signs
const kube::Resource kConfigurations{
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "", "", ""};
const kube::Resource kPodTemplates{"", "v1", "podtemplates", "", "", ""};

kube::ClientOptions review_options(const Cancellation& stop) {
  kube::ClientOptions options;
  options.cancel = &stop;
  options.timeout = kReviewTime;
  options.retry_budget = Seconds(0);
  return options;
}

}  // namespace

Webhook::Webhook(kube::Client& client, WebhookOptions options)
    : client_(client),
      reviewer_(client.config(), review_options(stop_)),
      options_(std::move(options)),
      keeper_(client, {options_.name_space,
                       kCertificateSecret,
                       {"adaptdl webhook",
                        {fmt::format("{}.{}.svc", kValidatorService, options_.name_space)},
                        options_.certificate_life_s,
                        kAuthorityLives * options_.certificate_life_s}}),
      serving_(keeper_.first()) {
  HttpServerOptions how;
  how.address = options_.address;
  how.port = options_.port;
  how.max_body = kMaxReview;
  how.max_connections = kMaxConnections;
  how.tls = serving_tls(serving_);
  server_ = std::make_unique<HttpServer>(how, [this](HttpServerRequest request, HttpReply reply) {
    take(std::move(request), std::move(reply));
  });
  keeper_.start([this](const ServerCertificates& now) { use(now); });
  for (int i = 0; i < kReviewers; ++i) threads_.emplace_back([this] { answer_reviews(); });
}

Webhook::~Webhook() {
  keeper_.stop();
  stop_.cancel();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  server_->stop(Seconds(1));
}

HttpTls Webhook::serving_tls(const ServerCertificates& certificates) const {
  HttpTls tls = tls_of(certificates);
  tls.client_authorities = options_.client_authorities;
  return tls;
}

void Webhook::publish(const ServerCertificates& certificates) {
  const kube::Resource place = kConfigurations.named(kWebhookConfiguration);
  const auto found = client_.find(place);
  if (!found) fail("ValidatingWebhookConfiguration {} not found", kWebhookConfiguration);
  const std::string wanted = to_base64(certificates.authorities);
  const Json hooks = found->value("webhooks", Json::array());
  for (const Json& hook : hooks) {
    const Json::json_pointer path("/clientConfig/caBundle");
    if (hook.value("name", "") == kWebhookName && hook.value(path, "") == wanted) return;
  }
  client_.patch(
      place, kube::PatchKind::strategic,
      {{"webhooks",
        Json::array({{{"name", kWebhookName}, {"clientConfig", {{"caBundle", wanted}}}}})}});
}

void Webhook::use(const ServerCertificates& certificates) {
  publish(certificates);  // first: the API server must trust the certificate before it is served
  if (!(certificates == serving_)) server_->set_tls(serving_tls(certificates));
  serving_ = certificates;
  ready_ = true;
}

void Webhook::take(HttpServerRequest request, HttpReply reply) {
  if (request.path == "/healthz") return reply.send(text_response(200, "ok"));
  if (request.path != "/validate") {
    return reply.send(text_response(404, "not found; the paths are /validate and /healthz"));
  }
  if (request.method != "POST")
    return reply.send(text_response(405, "use POST with an AdmissionReview"));
  const std::lock_guard lock(mutex_);
  if (reviews_.size() >= kMostWaiting) {
    return reply.send(text_response(503, "too many reviews are waiting; try again"));
  }
  reply.hold(2 * kReviewTime, text_response(503, "the operator is shutting down"), {});
  reviews_.push_back({std::move(request.body), std::move(reply)});
  wake_.notify_one();
}

void Webhook::answer_reviews() {
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return over_ || !reviews_.empty(); });
    if (over_) return;
    const Review review = std::move(reviews_.front());
    reviews_.pop_front();
    lock.unlock();
    review.reply.send(answer(review.body));
  }
}

HttpResponse Webhook::answer(const std::string& body) {
  std::unique_lock<std::mutex> alone;
  if (body.size() > kLargeReview) alone = std::unique_lock(large_mutex_);
  try {
    const Json review =
        kube::parse_answer(body, "AdmissionReview", kube::ObjectsAre::below_members);
    const Json verdict = review_admission(
        review,
        [this](const std::string& space, const Json& pod) { return try_template(space, pod); });
    return {.status = 200,
            .headers = {{"Content-Type", "application/json"}},
            .body = dump_json(verdict)};
  } catch (const Error& error) {
    return text_response(400, error.what());
  } catch (const std::exception& error) {  // any client of the port may send anything
    log_error("webhook: {}", error.what());
    return text_response(500, "the webhook failed to answer this review");
  }
}

std::optional<std::string> Webhook::try_template(const std::string& job_namespace,
                                                 const Json& pod) {
  try {
    reviewer_.create(kPodTemplates.in(job_namespace),
                     {{"apiVersion", "v1"},
                      {"kind", "PodTemplate"},
                      {"metadata", {{"generateName", "adaptdl-"}}},
                      {"template", pod}},
                     {.dry_run = true});
    return std::nullopt;
  } catch (const kube::ApiError& error) {
    // Any other error, such as a namespace that is being removed, is not the template's fault.
    if (!error.invalid() && error.code() != 400) throw;
    std::string problem;
    constexpr std::string_view kRoot = "template.";
    for (const auto& cause : error.status().causes) {
      const std::string field =
          cause.field.starts_with(kRoot) ? cause.field.substr(kRoot.size()) : cause.field;
      problem += fmt::format("{}{}: {}", problem.empty() ? "" : "; ", field, cause.message);
    }
    return problem.empty() ? error.status().message : problem;
  }
}

}  // namespace adaptdl::kubernetes
