#ifndef TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/proof.h"
#include "tutti/environment.h"

namespace tutti {

// Accepts the connections of a server, and tracks each as long as it is open.
// Passes a connection on to gRPC once its caller has proved that it is a task
// (proof.h): gRPC sees no byte of a stranger. With TLS, whose handshake is
// gRPC's, passes it on at once, and calls it unknown until its first admitted
// call.
//
// Bounds the connections of strangers: their number, the number from one host,
// the time of each. A new one takes the place of the oldest. Can break any
// connection: a peer that does not read holds gRPC's bytes without limit.
// Connections wait while the process has no file descriptor left.
//
// Thread-safe. Has one thread, which waits for connections, for what strangers
// send, and for the end of connections.
class ConnectionGate {
 public:
  struct Options {
    std::vector<std::string> endpoints;  // "127.0.0.1:7000", "[::1]:7000".

    // Listening sockets of this process, which the gate takes over instead of
    // opening others.
    std::vector<int> listeners;

    // Address for connections over a Unix socket (same_host_socket.h), for
    // processes of this host and user. Used if such a socket can be opened.
    // Empty: none.
    std::string same_host_address;

    // Party of this task in proofs; none: TLS proves.
    std::optional<Proof::Party> party;
    int max_unknown = 256;  // Half of them may be from one host.

    // Time for which a connection may be unknown.
    absl::Duration unknown_limit = DefaultTime("proof");
    Clock* clock = nullptr;
    Random* random = nullptr;
  };

  // Takes over the connection `fd`, which came to `listener_fd`.
  using OnConnection = std::function<void(int listener_fd, int fd)>;

  // Listens, but accepts nothing yet. Leaves out endpoints of a kind that this
  // machine does not have, if there are others. Errors: UNAVAILABLE, saying
  // why, if listening at one of the endpoints fails.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(
      Options options);

  ~ConnectionGate();  // Closes.
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // Starts to accept. Call once.
  void Start(OnConnection on_connection);

  // Makes the connection from `peer`, in gRPC's words (PeerNameOf), a task's.
  // Does nothing if it is already, or gone.
  void Vouch(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Breaks the connection from `peer`, whatever is on its way.
  void Break(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Stops listening, and breaks all connections.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_unknown() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Connection {
    FileDescriptor fd;  // gRPC has a duplicate.
    int listener = -1;
    std::string peer;
    std::optional<Proof> proof;  // Set until it is done.
    Clock::AlarmId alarm = 0;
  };

  ConnectionGate(Options options, std::vector<FileDescriptor> listeners,
                 FileDescriptor events, FileDescriptor wake);

  void Run();
  void Accept(int listener);
  void Rest(int listener);

  // Accepts again, later if epoll cannot watch the listener now.
  void AcceptAgain(int listener);

  // Connection for gRPC; no descriptor if there is none now.
  struct Accepted {
    int listener = -1;
    FileDescriptor fd;
  };
  void PassOn(Accepted accepted);

  // Adds a connection, unknown at first, if it is fit. Returns it for gRPC if
  // no proof must come first.
  Accepted Admit(int listener, FileDescriptor fd) ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the oldest unknown connections, as long as there is no room for one
  // more from `host`.
  void MakeRoom(absl::string_view host) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Goes on with the proof of a connection, and returns it once that is done.
  // Drops the connection if the proof fails, or if it has ended.
  Accepted Handle(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  void MakeKnown(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Drop(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropIfUnknown(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const FileDescriptor events_;  // Owned epoll descriptor.
  const FileDescriptor wake_;
  OnConnection on_connection_;
  std::thread thread_;

  mutable Mutex mu_;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<FileDescriptor> listeners_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, Connection> connections_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, uint64_t> ids_ ABSL_GUARDED_BY(mu_);
  // Hosts of unknown connections, oldest first.
  absl::btree_map<uint64_t, std::string> unknown_ ABSL_GUARDED_BY(mu_);

  // Pointer held by alarms; null after the gate is gone.
  struct Self {
    Mutex mu;
    ConnectionGate* gate ABSL_GUARDED_BY(mu) = nullptr;
  };
  const std::shared_ptr<Self> self_;
};

// Returns gRPC's name of the other end of a connection, without escapes:
// "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "unix-abstract:00a3f". Empty if the
// connection is gone, or the other end has no name.
std::string PeerNameOf(int fd);

// Returns whether a peer's name is that of a Unix socket. The gate admits only
// processes of this user there.
bool IsOnSameHost(absl::string_view peer);

// Returns the name of PeerNameOf() from gRPC's own text. An IPv4 address in
// IPv6 form becomes IPv4.
std::string PlainPeerName(const std::string& peer);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_
