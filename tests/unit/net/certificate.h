#pragma once

#include <string>

namespace adaptdl {

// A certificate for `localhost` that signs itself, valid for an hour, and its key; PEM.
struct Certificate {
  std::string certificate, key;
};
Certificate make_certificate();

}  // namespace adaptdl
