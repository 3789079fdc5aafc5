#ifndef TUTTI_REMOTE_GRPC_CONNECTION_CHANNEL_ARGUMENTS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_CHANNEL_ARGUMENTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

// Settings of gRPC, as name and value.
using ChannelSettings = std::vector<std::pair<std::string, int>>;

// Returns the settings of both sides, for connections that carry many bytes and
// whose end must be noticed.
ChannelSettings ConnectionSettings();

// Returns the client's settings: no proxy, no connection shared with another
// channel, no buffer for retries, short pauses between attempts.
ChannelSettings ClientSettings(size_t max_message_bytes);

// Returns the server's settings.
ChannelSettings ServerSettings(size_t max_message_bytes);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CHANNEL_ARGUMENTS_H_
