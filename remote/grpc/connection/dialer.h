#ifndef TUTTI_REMOTE_GRPC_CONNECTION_DIALER_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_DIALER_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/connection/proof.h"
#include "tutti/environment.h"

namespace tutti {

// Connection to a task that has proved that it is one (proof.h).
struct ProvenSocket {
  FileDescriptor fd;

  // Process of the other side, if a Unix socket of this host connects it and
  // the kernel vouches for it; else 0.
  pid_t process = 0;
};

// Connects to tasks: over a Unix socket if a process of this user listens at
// the task's name (same_host_socket.h), else over TCP. Then has the two sides
// prove that they are tasks.
//
// Thread-safe. Has one thread from its first use on, which waits for sockets,
// and one for each host name while the system looks it up.
class Dialer final : public std::enable_shared_from_this<Dialer> {
 public:
  struct Options {
    Proof::Party party;
    Environment environment;
    bool same_host = false;  // Tries Unix sockets.
  };

  // Lives until all look-ups have ended; what `options` refers to only until
  // Close().
  static std::shared_ptr<Dialer> Create(const Options& options);
  explicit Dialer(const Options& options) : options_(options) {}
  ~Dialer();  // REQUIRES: Close() has been called.
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // Runs exactly once, with no lock held: in Dial(), in Close(), on the thread
  // of the dialer, of a look-up or of the clock.
  using Done = absl::AnyInvocable<void(absl::StatusOr<ProvenSocket>) &&>;

  // Errors, all of which name the task: UNAVAILABLE if nothing answers, or what
  // answers is no task; those of Proof; PERMISSION_DENIED if another user has
  // the task's Unix socket and there is no token to tell who answers instead;
  // RESOURCE_EXHAUSTED without descriptors or threads; CANCELLED after Close().
  void Dial(int task, Done done) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends what is under way with CANCELLED, and waits until each `done` has
  // run. Blocks; do not call it in a `done`.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Address {
    sockaddr_storage bytes = {};
    socklen_t size = 0;
  };
  using Addresses = std::vector<Address>;

  // Attempt to reach a task, over one address after the other.
  struct Attempt {
    int task = 0;
    Done done;
    std::optional<Clock::AlarmId> alarm;
    bool is_looking_up = false;
    Addresses left;  // In turn, the next one last.
    absl::Status last_error;
    ProvenSocket socket;
    std::optional<Proof> proof;  // Set once the socket is connected.
  };

  // Ended attempt, whose `done` must run without the lock.
  struct Ended {
    Done done;
    absl::StatusOr<ProvenSocket> result;
  };
  using MaybeEnded = std::optional<Ended>;

  static absl::StatusOr<Addresses> LookUp(const std::string& address,
                                          int flags);

  static bool BeginToConnect(int fd, const Address& address);

  // Starts the thread, at the first call. Errors: CANCELLED after Close().
  absl::Status Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  void RunDone(MaybeEnded ended);

  // Steps of the attempt `id`. Each returns it if it has ended.
  MaybeEnded Begin(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  MaybeEnded Connect(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  MaybeEnded Prove(uint64_t id, int operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  MaybeEnded End(uint64_t id, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Events of an attempt, which may have ended.
  MaybeEnded OnSocket(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  MaybeEnded OnAlarm(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  void OnLookUp(int task, const absl::StatusOr<Addresses>& found)
      ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status LookUpSoon(int task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetAlarm(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string Label(int task) const {
    return options_.party.cluster->Label(task);
  }

  const Options options_;
  InFlight in_flight_;  // Attempts whose `done` has not run.

  Mutex mu_;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mu_);
  FileDescriptor events_ ABSL_GUARDED_BY(mu_);  // Owned epoll descriptor.
  FileDescriptor wake_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, Attempt> attempts_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<int> looked_up_ ABSL_GUARDED_BY(mu_);  // Tasks, now.

  // Addresses of tasks by their names, until none of them answers.
  absl::flat_hash_map<int, Addresses> known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_DIALER_H_
