#ifndef TUTTI_REMOTE_GRPC_CONNECTION_PEER_NAME_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_PEER_NAME_H_

#include <string>

namespace tutti {

// How gRPC names whoever is at the other end of a connection, without its
// escapes: "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "unix-abstract:00a3f".
// Empty if the connection is gone, or the other end has no name.
std::string PeerNameOf(int fd);

// The same from gRPC's own text for it; of an IPv4 address in the form of IPv6,
// that of IPv4.
std::string PlainPeerName(const std::string& peer);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_PEER_NAME_H_
