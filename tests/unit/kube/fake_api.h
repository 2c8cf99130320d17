#pragma once

// An API server for tests, stricter than the real one: what that forgives, this refuses, and it
// breaks off watches after every few events. Objects of the kinds below, with resource versions,
// generated names, status apart, paging, selectors by equality and existence, lists by name,
// watches, server-side apply by fields (lists whole), finalizers, dry runs.
//
// Refused with 400: parameters and fields at the top that nobody knows, bodies of another type than
// the request says, objects of another kind, name or namespace than its path. With 409: updates
// without a resource version, or an old one.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/kube/config.h"
#include "core/kube/resource.h"
#include "core/net/http_server.h"

namespace adaptdl::kube {

class FakeApi {
 public:
  struct Kind {
    Resource resource;
    std::string kind;
    bool namespaced = true;
    std::set<std::string> fields = {"spec"};  // besides apiVersion, kind, metadata and status
  };

  // With pods, nodes, configmaps, secrets, leases and `more`.
  explicit FakeApi(std::vector<Kind> more = {});

  Config config() const;  // to reach it, without credentials

  // Called first for each request; what it returns is the answer. On the server's thread.
  using Fault = std::function<std::optional<HttpResponse>(const HttpServerRequest&)>;
  void set_fault(Fault fault);

  // As another client would do; they return what is stored.
  Json put(const Resource& collection, Json object);
  void erase(const Resource& object);

  // Forgets what happened until now: watches from older versions are answered 410, and so are
  // pages. `as_event`: on a watch it comes as an event ERROR.
  void compact(bool as_event = false);

  int requests() const;  // so far
  int watches() const;   // that wait now

 private:
  struct Stored {
    Json object;
    std::map<std::string, std::set<std::string>> managers;  // JSON pointers of leaves
  };
  struct Change {
    int64_t version;
    std::string type;
    Json object;
  };
  struct Waiting {
    const Kind* kind;
    std::string name_space, labels;
    int64_t version;
    HttpReply reply;
  };
  struct Target {
    const Kind* kind = nullptr;
    std::string name_space, name, subresource;
  };
  using Key = std::vector<std::string>;  // plural, namespace, name

  void handle(const HttpServerRequest& request, const HttpReply& reply);
  HttpResponse answer(const HttpServerRequest& request, const Target& target);
  HttpResponse list(const HttpServerRequest& request, const Target& target);
  HttpResponse create(const HttpServerRequest& request, const Target& target);
  HttpResponse replace(const HttpServerRequest& request, const Target& target);
  HttpResponse patch(const HttpServerRequest& request, const Target& target);
  HttpResponse apply(const HttpServerRequest& request, const Target& target);
  HttpResponse remove(const HttpServerRequest& request, const Target& target);
  void watch(const HttpServerRequest& request, const Target& target, const HttpReply& reply);

  Target target_of(const std::string& path) const;
  Json body_of(const HttpServerRequest& request, const Target& target, const char* type) const;
  Stored& stored(const Target& target);
  HttpResponse store(const Target& target, Stored value, const HttpServerRequest& request,
                     int status = 200);
  void changed(const Kind& kind, const std::string& type, const Json& object);
  std::optional<HttpResponse> events(const Waiting& waiting);
  void flush();

  std::vector<Kind> kinds_;
  mutable std::recursive_mutex mutex_;  // a fault may put objects
  Fault fault_;
  std::map<Key, Stored> objects_;
  std::map<std::string, std::vector<Change>> changes_;  // by plural
  std::map<std::string, std::vector<Json>> pages_;      // what is left, by token
  std::vector<Waiting> waiting_;
  int64_t version_ = 100, oldest_ = 0;
  int requests_ = 0;
  bool gone_as_event_ = false;
  std::optional<HttpServer> server_;
};

// A Status as the API server writes it.
HttpResponse status_response(int code, const std::string& reason, const std::string& message,
                             HttpHeaders headers = {});

}  // namespace adaptdl::kube
