#pragma once

// The TensorBoard instances of any cluster, for `adaptdl tensorboard`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/client/cluster_choice.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// Options of instances on Kubernetes; on this machine an instance is a folder.
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

// One thread. Every function throws Error if the instance is not found, with a suggestion, or if
// the cluster refuses.
class TensorBoards {
 public:
  virtual ~TensorBoards() = default;

  // Returns a note for the user; "" if there is none. Throws Error if the instance already exists.
  virtual std::string create(const std::string& name, const TensorBoardOptions& options) = 0;

  // What remove() would delete, for a question. Throws Error if the instance is in use.
  virtual std::string removal(const std::string& name) = 0;
  virtual void remove(const std::string& name) = 0;

  virtual TensorBoardList list() = 0;

  // Serves it at an address of this machine until a signal; prints the address once it can be
  // opened.
  virtual void proxy(const std::string& name, const std::string& address,
                     std::optional<int> port) = 0;
};

std::unique_ptr<TensorBoards> open_local_tensorboards();
std::unique_ptr<TensorBoards> open_kubernetes_tensorboards(const ClusterChoice& choice,
                                                           bool verbose);

// Prints "Proxying to TensorBoard instance NAME at http://ADDRESS:PORT" to standard output.
void tell_tensorboard(const std::string& name, const std::string& address, int port);

}  // namespace adaptdl::client
