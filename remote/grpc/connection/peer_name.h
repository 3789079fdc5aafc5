#ifndef TUTTI_REMOTE_GRPC_CONNECTION_PEER_NAME_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_PEER_NAME_H_

#include <string>

namespace tutti {

// Returns gRPC's name of the other end of a connection, without escapes:
// "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "unix-abstract:00a3f". Empty if the
// connection is gone, or the other end has no name.
std::string PeerNameOf(int fd);

// Returns the same name from gRPC's own text. An IPv4 address in IPv6 form
// becomes IPv4.
std::string PlainPeerName(const std::string& peer);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_PEER_NAME_H_
