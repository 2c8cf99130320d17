#pragma once

// The TensorBoard instances of any cluster, as `adaptdl tensorboard` knows them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/client/cluster_choice.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// Of instances on Kubernetes; on this machine one is a folder.
struct TensorBoardOptions {
  std::string image;
  std::string size, storage_class;  // of its volume; no class: shared_claim_spec()'s choice
  bool node_port = false;
};

struct TensorBoardList {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  Json records = Json::array();  // of -o json
};

// One thread. Every function throws Error if there is no instance of that name, with what was
// probably meant, or if the cluster refuses.
class TensorBoards {
 public:
  virtual ~TensorBoards() = default;

  // What there is to say about it beyond success; "" if nothing. Throws Error if there is one.
  virtual std::string create(const std::string& name, const TensorBoardOptions& options) = 0;

  // What remove() would take away, for a question. Throws Error if the instance is in use.
  virtual std::string removal(const std::string& name) = 0;
  virtual void remove(const std::string& name) = 0;

  virtual TensorBoardList list() = 0;

  // Shows it at an address of this machine until a signal, and says so once it can be opened.
  virtual void proxy(const std::string& name, const std::string& address,
                     std::optional<int> port) = 0;
};

std::unique_ptr<TensorBoards> open_local_tensorboards();
std::unique_ptr<TensorBoards> open_kubernetes_tensorboards(const ClusterChoice& choice,
                                                           bool verbose);

// "Proxying to TensorBoard instance NAME at http://ADDRESS:PORT", on standard output.
void tell_tensorboard(const std::string& name, const std::string& address, int port);

}  // namespace adaptdl::client
