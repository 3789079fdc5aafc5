#ifndef TUTTI_GRPC_TRANSPORT_H_
#define TUTTI_GRPC_TRANSPORT_H_

// Transport over gRPC: connects the tasks of a cluster, with TLS and bounds
// on what a peer may cost. A library of its own, which brings threads of
// gRPC.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// What a peer may cost. Whoever exceeds a bound gets RESOURCE_EXHAUSTED.
struct GrpcBounds {
  size_t max_control_request_bytes = size_t{64} << 10;

  // A group of 65,536 members must fit.
  size_t max_control_reply_bytes = size_t{4} << 20;

  // Payload in one message of a transfer stream, that we send or take.
  size_t max_frame_bytes = size_t{4} << 20;

  // Of one peer: also those that wait for members that are late.
  int max_open_transfers = 65536;

  // Of one peer, over which it asks for bytes: one for each of its lanes, and
  // those that are about to end.
  int max_open_streams = 1024;

  // Of one peer, that wait for their answers: those of its members, for each
  // collective that other members have not called yet.
  int max_open_calls = 65536;

  // Connections of which no call has been let in. More wait to be accepted, and
  // each is closed after 10 s.
  int max_unknown_connections = 64;
};

// Paths of PEM files. The certificate names its task, "task-3", as common name
// or as alternative DNS name.
struct TlsOptions {
  std::string certificate;
  std::string key;
  std::string ca;

  bool enabled() const {
    return !certificate.empty() || !key.empty() || !ca.empty();
  }
};

struct GrpcTransportOptions {
  ClusterSpec cluster;
  uint64_t incarnation = 0;  // Of this process. Not 0.
  Environment environment;

  // Tasks talk to each other only if both of these are the same.
  std::string job_id;
  std::string token;

  // The host to listen at, such as "0.0.0.0"; by default the one that the
  // cluster gives for this task. The port is that of the cluster.
  std::string bind_address;

  // Whether to listen at an address that other machines reach without TLS.
  bool insecure = false;
  TlsOptions tls;

  GrpcBounds bounds;

  // Connections to each peer that large transfers are spread over: at most half
  // of `bounds.max_open_streams`.
  int transfer_lanes = 1;

  // Whether tasks of one user in one network namespace talk to each other over
  // a Unix socket. Both tasks must want it. With TLS none do: these are plain.
  bool same_host_socket = true;

  // Whether tasks on the same host, as the same user, read large payloads from
  // each other's memory, where the system lets them. Both tasks must want it.
  bool same_host_memory = true;

  // How long bytes of a transfer that was cancelled may still be with gRPC
  // before their stream is closed; as long again, and its connection is.
  absl::Duration cancel_grace = absl::Seconds(2);
};

class Transport;

// A transport over gRPC. Control calls are unary; the bytes of transfers go as
// slices that alias the lender's memory and are given to the borrower where
// gRPC received them.
//
// gRPC brings threads of its own. Borrowers, `done` and the services are called
// on them: they must not block, nor shut the transport down.
//
// When a task answers with another incarnation than before, the calls and
// requests that were meant for the earlier one end with FAILED_PRECONDITION;
// those made afterwards reach the new one.
//
// Errors: INVALID_ARGUMENT for options that make no sense or are not safe: to
// listen where other machines can connect needs TLS, or `insecure`; NOT_FOUND
// for a file that cannot be read.
absl::StatusOr<std::shared_ptr<Transport>> CreateGrpcTransport(
    GrpcTransportOptions options);

}  // namespace tutti

#endif  // TUTTI_GRPC_TRANSPORT_H_
