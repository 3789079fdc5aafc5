#ifndef TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "tutti/environment.h"

namespace tutti {

// Accepts the connections of a server, and tracks each as long as it is open.
// Limits the number of open connections without a vouched peer, and can break
// any connection. gRPC can do neither: it accepts any number, and a peer that
// does not read holds its bytes without limit. Connections above the limit wait
// for room. They wait too while the process has no file descriptor left.
//
// Thread-safe. Has one thread, which waits for connections and for their end.
class ConnectionGate {
 public:
  struct Options {
    std::vector<std::string> endpoints;  // "127.0.0.1:7000", "[::1]:7000".

    // Address for connections over a Unix socket (same_host_socket.h), for
    // processes of this host and user. Used if such a socket can be opened.
    // Empty: none.
    std::string same_host_address;
    int max_unknown = 64;  // Limit on connections without a name; others wait.

    // Time for which a connection may be without a name.
    absl::Duration unknown_limit = DefaultTime("unknown peer");

    // Number of refused calls allowed over a connection without a name.
    int max_refusals = 1024;
    Clock* clock = nullptr;
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

  // Names the connection from `peer`, in gRPC's words (PeerNameOf), as a
  // task's. Ignores unknown peers.
  void Vouch(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts a refused call over the connection from `peer`. Breaks the
  // connection if it has too many and no name.
  void CountRefusal(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Breaks the connection from `peer`, whatever is on its way.
  void Break(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Stops listening, and breaks all connections.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_unknown() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Connection {
    FileDescriptor fd;  // Duplicate; gRPC owns the original.
    std::string peer;
    bool is_unknown = true;
    int num_refusals = 0;
    Clock::AlarmId alarm = 0;
  };

  ConnectionGate(Options options, std::vector<FileDescriptor> listeners,
                 FileDescriptor events, FileDescriptor wake);

  void Run();
  void Accept(int listener);
  void Rest(int listener);

  // Accepts again, later if epoll cannot watch the listener now.
  void AcceptAgain(int listener);

  // Returns true if there is no room for a connection: the listener then waits.
  bool WaitsForRoom(int listener) ABSL_LOCKS_EXCLUDED(mu_);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns null if there is no such connection.
  Connection* Find(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns false if epoll cannot watch the connection.
  bool Admit(int fd) ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  void BreakIfUnknown(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);

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
  int num_unknown_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int> waiting_listeners_ ABSL_GUARDED_BY(mu_);  // For room.

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

// Returns the same name from gRPC's own text. An IPv4 address in IPv6 form
// becomes IPv4.
std::string PlainPeerName(const std::string& peer);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_
