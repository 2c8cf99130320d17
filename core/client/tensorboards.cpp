#include "core/client/tensorboards.h"

#include "core/base/console.h"
#include "core/net/http_message.h"

namespace adaptdl::client {

void tell_tensorboard(const std::string& name, const std::string& address, int port) {
  print_line(fmt::format("Proxying to TensorBoard instance {} at http://{}:{}", name,
                         url_host(address), port));
}

}  // namespace adaptdl::client
