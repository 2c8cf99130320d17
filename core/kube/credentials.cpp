#include "core/kube/credentials.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/formats/base64.h"

namespace adaptdl::kube {
namespace {

constexpr Seconds kReadAgain{10.0};
constexpr size_t kMaxCredential = 1u << 20;

std::string without_line_end(std::string text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

Credentials::Credentials(const Config& config)
    : secure_(config.server.starts_with("https:")),
      user_(config.user),
      source_(config.source),
      token_(user_.token),
      certificate_(user_.certificate),
      key_(user_.key) {}

void Credentials::read_files() {
  if (user_.token_file.empty() && user_.certificate_file.empty() && user_.key_file.empty()) return;
  try {
    if (!user_.token_file.empty()) {
      std::string token = without_line_end(read_file(user_.token_file, kMaxCredential));
      if (token.empty()) fail("{}: is empty; it must contain a token", user_.token_file);
      token_ = std::move(token);
    }
    // Replace both or neither, because they belong together.
    std::string certificate = certificate_, key = key_;
    if (!user_.certificate_file.empty()) {
      certificate = read_file(user_.certificate_file, kMaxCredential);
    }
    if (!user_.key_file.empty()) key = read_file(user_.key_file, kMaxCredential);
    certificate_ = std::move(certificate);
    key_ = std::move(key);
  } catch (const Error& error) {
    // The values read before may still be valid; the server decides.
    if (!read_) throw Error(fmt::format("{}: {}", source_, error.what()), ExitCode::auth);
    log_warning("{}: {}; using what was read before", source_, error.what());
  }
  read_ = true;
  read_at_ = Monotonic::now();
}

Identity Credentials::make() {
  Identity identity;
  if (!secure_) return identity;
  if (!read_ || seconds_since(read_at_) > kReadAgain.count()) read_files();
  identity.certificate = certificate_;
  identity.key = key_;
  std::string token = token_;
  if (token.empty() && user_.login.empty() && user_.exec) {
    const bool expired =
        given_ && given_->expires && *given_->expires <= std::chrono::system_clock::now();
    if (!given_ || expired) given_ = run_exec_plugin(*user_.exec, user_.name);
    token = given_->token;
    if (!given_->certificate.empty()) {
      identity.certificate = given_->certificate;
      identity.key = given_->key;
    }
  }
  if (!token.empty()) {
    identity.headers.emplace_back("Authorization", "Bearer " + token);
  } else if (!user_.login.empty()) {
    identity.headers.emplace_back("Authorization",
                                  "Basic " + to_base64(user_.login + ":" + user_.password));
  }
  identity.headers.insert(identity.headers.end(), user_.impersonation.begin(),
                          user_.impersonation.end());
  return identity;
}

Identity Credentials::current() {
  const std::lock_guard lock(mutex_);
  return make();
}

bool Credentials::renew(const Identity& refused) {
  const std::lock_guard lock(mutex_);
  if (make() != refused) return true;  // another thread was faster
  read_files();
  given_.reset();
  return make() != refused;
}

}  // namespace adaptdl::kube
