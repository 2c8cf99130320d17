#include "core/client/kubernetes/transfer.h"

#include "core/client/kubernetes/copy.h"
#include "core/client/kubernetes/exec.h"
#include "core/client/kubernetes/job_objects.h"
#include "core/client/kubernetes/storage.h"

namespace adaptdl::client {
namespace {

class KubernetesTransfer : public JobTransfer {
 public:
  explicit KubernetesTransfer(std::shared_ptr<KubernetesConnection> cluster)
      : cluster_(std::move(cluster)) {}

  CopyResult copy_from(const std::string& job, const std::string& path,
                       const std::string& to) override {
    const std::string place = storage_path(path);
    return copy_from_storage(*cluster_, find_job_object(*cluster_, job), place, to);
  }
  CopyResult copy_to(const std::string& from, const std::string& job,
                     const std::string& path) override {
    const std::string place = storage_path(path);
    return copy_to_storage(*cluster_, from, find_job_object(*cluster_, job), place);
  }
  int exec(const ExecRequest& request) override {
    return exec_in_pod(*cluster_, find_job_object(*cluster_, request.job), request);
  }

 private:
  const std::shared_ptr<KubernetesConnection> cluster_;
};

}  // namespace

std::unique_ptr<JobTransfer> kubernetes_transfer(std::shared_ptr<KubernetesConnection> cluster) {
  return std::make_unique<KubernetesTransfer>(std::move(cluster));
}

}  // namespace adaptdl::client
