#ifndef TUTTI_REMOTE_GRPC_CONNECTION_CHANNEL_ARGUMENTS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_CHANNEL_ARGUMENTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

// Settings of gRPC: name and value.
using ChannelSettings = std::vector<std::pair<std::string, int>>;

// For connections that carry a lot, and whose end must be noticed: the same on
// both sides.
ChannelSettings ConnectionSettings();

// For whoever connects: no proxy, no connection shared with another channel,
// nothing kept for calls to be tried again, short pauses between attempts.
ChannelSettings ClientSettings(size_t max_message_bytes);

// For whoever is connected to.
ChannelSettings ServerSettings(size_t max_message_bytes);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CHANNEL_ARGUMENTS_H_
