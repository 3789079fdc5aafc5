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

// Accepts the connections of a server, and knows each as long as it is open:
// few may be open that nobody has vouched for, and any can be broken. gRPC has
// neither: it takes as many as come, and a peer that does not read keeps the
// bytes that are on their way to it for as long as it likes. More connections
// than that wait until there is room, and so they do while the process has no
// file descriptor left.
//
// Thread-safe. Has one thread, that waits for connections and for their end.
class ConnectionGate {
 public:
  struct Options {
    std::vector<std::string> endpoints;  // "127.0.0.1:7000", "[::1]:7000".

    // If given, processes of this host and user may connect to it over a Unix
    // socket as well (same_host_socket.h), where one can be had.
    std::string same_host_address;
    int max_unknown = 64;  // Connections without a name. Others wait.

    // How long a connection may be without one.
    absl::Duration unknown_limit = absl::Seconds(10);

    // How many calls may be refused over one without a name.
    int max_refusals = 1024;
    Clock* clock = nullptr;
  };

  // Takes over the connection `fd`, that came to `listener_fd`.
  using OnConnection = std::function<void(int listener_fd, int fd)>;

  // Listens, but accepts nothing yet. Errors: UNAVAILABLE, saying why, if it
  // cannot listen at one of the endpoints; those of a kind that this machine
  // does not have are left out if there are others.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(
      Options options);

  ~ConnectionGate();  // Closes.
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // Once.
  void Start(OnConnection on_connection);

  // The connection from `peer`, by gRPC's name for it (peer_name.h), is of a
  // task. Unknown peers are ignored.
  void Vouch(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // A call over the connection from `peer` has been refused. If that were too
  // many, and nobody has vouched for it, ends it.
  void CountRefusal(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the connection from `peer`, whatever is on its way.
  void Break(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Listens no more, and breaks all connections.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_unknown() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Connection {
    FileDescriptor fd;  // A second one: gRPC has the first.
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

  // Later if it cannot be watched now.
  void AcceptAgain(int listener);

  // True if there is no room for a connection: the listener waits for it then.
  bool WaitsForRoom(int listener) ABSL_LOCKS_EXCLUDED(mu_);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Null if there is none.
  Connection* Find(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // False if it cannot be watched.
  bool Admit(int fd) ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  void BreakIfUnknown(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const FileDescriptor events_;  // Of epoll.
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

  // What alarms hold: null after the gate is gone.
  struct Self {
    Mutex mu;
    ConnectionGate* gate ABSL_GUARDED_BY(mu) = nullptr;
  };
  const std::shared_ptr<Self> self_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CONNECTION_GATE_H_
