#ifndef TUTTI_GRPC_TRANSPORT_H_
#define TUTTI_GRPC_TRANSPORT_H_

// Transport over gRPC: connects the tasks of a cluster, with TLS and bounds on
// a peer's use of resources. A separate library, which brings threads of gRPC.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Bounds on a peer's use of resources. A peer beyond a bound gets
// RESOURCE_EXHAUSTED.
struct GrpcBounds {
  size_t max_control_request_bytes = size_t{64} << 10;

  // Large enough for a group of 65,536 members.
  size_t max_control_reply_bytes = size_t{4} << 20;

  // Payload in one message of a transfer stream, sent or received.
  size_t max_frame_bytes = size_t{4} << 20;

  // Transfers of one peer, including those that wait for late members.
  int max_open_transfers = 65536;

  // Streams of one peer, on which it requests bytes: one per lane, and those
  // about to end.
  int max_open_streams = 1024;

  // Unanswered calls of one peer: one per member for each collective that other
  // members have not called yet.
  int max_open_calls = 65536;

  // Open connections whose caller has not proved yet that it is a task. A new
  // one takes the place of the oldest; half of them may be from one host. Each
  // is closed after 2 s (with TLS: 10 s).
  int max_unknown_connections = 256;
};

struct GrpcTransportOptions {
  ClusterSpec cluster;
  uint64_t incarnation = 0;  // Incarnation of this process. Not 0.
  Environment environment;

  // Tasks accept each other only if both values are equal. The token is a
  // secret: each side of a connection proves that it has it, and it is never
  // sent. Empty: everybody has it.
  std::string job_id;
  std::string token;

  // Host to listen at, such as "0.0.0.0". Default: the cluster's host for this
  // task. The port is always the cluster's.
  std::string bind_address;

  // Listening sockets of this process, for example inherited ones: TCP sockets
  // that the others reach by the cluster's address of this task, and Unix
  // sockets. Start() takes them over. Empty: Start() opens sockets at
  // `bind_address`.
  std::vector<int> listeners;

  // Allows listening without TLS at an address that other machines can reach.
  bool insecure = false;
  TlsOptions tls;

  GrpcBounds bounds;

  // Number of connections to each peer that share large transfers: at most half
  // of `bounds.max_open_streams`.
  int transfer_lanes = 1;

  // Allows a Unix socket between tasks of one user in one network namespace.
  // Both tasks must allow it. Never used with TLS, because these sockets are
  // plain.
  bool same_host_socket = true;

  // Allows tasks that a Unix socket connects to read large payloads from each
  // other's memory, if the system permits. Both tasks must allow it.
  bool same_host_memory = true;

  // Time that bytes of a transfer which has ended may still be with gRPC. Then
  // the connection that has them is closed, since its peer does not read them.
  absl::Duration cancel_grace = DefaultTime("cancel grace");
};

class Transport;

// Creates a transport over gRPC. Control calls are unary. Transfers send slices
// that alias the sender's memory, and give the receiver the memory in which
// gRPC received them.
//
// Receivers, `done` and the services are called on threads of gRPC: they must
// not block or shut the transport down.
//
// A task may answer with another incarnation than before. Calls and requests
// meant for the earlier incarnation then end with FAILED_PRECONDITION; later
// ones reach the new one.
//
// Errors: INVALID_ARGUMENT for options that are invalid or unsafe: listening
// where other machines can connect needs TLS or `insecure`; NOT_FOUND for a
// file that cannot be read; FAILED_PRECONDITION for TLS if gRPC's library
// cannot refuse versions below 1.3.
absl::StatusOr<std::shared_ptr<Transport>> CreateGrpcTransport(
    GrpcTransportOptions options);

}  // namespace tutti

#endif  // TUTTI_GRPC_TRANSPORT_H_
