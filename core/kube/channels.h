#pragma once

// Internal to exec and port_forward: the API server's multiplexed WebSockets. The first byte of a
// message is its channel.

#include <memory>

#include "core/kube/client.h"
#include "core/net/websocket.h"

namespace adaptdl::kube {

// Opens the WebSocket. Throws ApiError with the server's reason if it refuses, HttpError if it does
// not answer.
std::unique_ptr<WebSocket> open_channels(Client& client, const Resource& resource,
                                         const Query& query,
                                         const std::vector<std::string>& protocols);

}  // namespace adaptdl::kube
