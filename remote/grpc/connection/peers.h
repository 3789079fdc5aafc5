#ifndef TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/dialer.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "tutti/cluster_runtime.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Other tasks, from the caller's side: how to reach each, how to identify a
// call to it, and which incarnation of it has answered. Connects at the first
// use. Thread-safe.
class Peers {
 public:
  // `options` outlives this object.
  Peers(const GrpcTransportOptions* options,
        std::shared_ptr<grpc::ChannelCredentials> credentials);

  // Returns, for example, "task 3 (host:7000)".
  std::string Label(int task) const { return options_->cluster.Label(task); }

  // Errors: INVALID_ARGUMENT if there is no such task.
  absl::Status CheckTask(int task) const;

  // Lane of control calls; the lanes of transfers are 0, 1, ...
  static constexpr int kControlLane = -1;

  // Channel to a task. Without TLS, of one connection, both sides of which have
  // proved that they are tasks.
  struct Link {
    std::shared_ptr<grpc::Channel> channel;
    pid_t process = 0;  // See ProvenSocket.
  };

  // Runs exactly once, with no lock held: in Connect(), in Close(), or on
  // another thread. Must not block.
  using OnLink = absl::AnyInvocable<void(absl::StatusOr<Link>) &&>;

  // Gets the link of a lane; connects if there is none, or if it is broken.
  // Each lane is a separate connection. Errors: those of Dialer::Dial(), also
  // for some time after an attempt that failed, without another attempt.
  void Connect(int task, int lane, OnLink done) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the incarnation of the last known process; 0 if none is known.
  uint64_t incarnation(int task) const ABSL_LOCKS_EXCLUDED(mu_);

  // Writes the caller and the expected incarnation into a call to `task`.
  // Returns that incarnation, which is the last known one; 0 if none is known,
  // or if the call is for any process.
  uint64_t Identify(int task, grpc::ClientContext& context,
                    bool to_any_process = false) ABSL_LOCKS_EXCLUDED(mu_);

  // Frees the context of a call that has ended, and with it, maybe, a channel.
  void Free(std::unique_ptr<grpc::ClientContext> context) const;

  // Notes a process that calls. If it replaces another process, later calls go
  // to it. In any case an earlier failure to reach the task fails no later
  // call.
  void OnCall(const ControlCaller& caller) ABSL_LOCKS_EXCLUDED(mu_);

  // Notes the incarnation that answers a call to `expected`. Later calls go to
  // this incarnation. Errors: FAILED_PRECONDITION if it differs from
  // `expected`.
  absl::Status Observe(int task, uint64_t expected, uint64_t incarnation)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the links without a call that have not been used since the last call
  // of this function. Connect() connects again.
  void CloseIdle() ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the links. Blocks; do not call on a thread of gRPC. Call last.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Attempt to get a link, and who waits for it.
  struct Attempt {
    std::vector<OnLink> waiting;
  };

  // Way to a task: its link, or attempts to get one.
  struct Way {
    std::shared_ptr<grpc::Channel> channel;
    FileDescriptor socket;  // Duplicate of the link's; none with TLS.
    pid_t process = 0;
    bool was_used = false;             // Since the last CloseIdle().
    std::shared_ptr<Attempt> attempt;  // Under way; null: none.
    absl::Status last_error;
    absl::Time next_attempt = absl::InfinitePast();
    absl::Duration pause;  // Before the next attempt, if the last one failed.

    bool is_failing() const;
  };

  // Present and former processes of a task.
  struct Process {
    uint64_t incarnation = 0;
    std::deque<uint64_t> replaced;  // Newest replaced incarnations.
  };

  // Returns what is known of a link; nothing if an attempt must get it.
  std::optional<absl::StatusOr<Link>> FindLink(int task, int lane,
                                               Way& way) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDialed(const std::pair<int, int>& key,
                const std::shared_ptr<Attempt>& attempt,
                absl::StatusOr<ProvenSocket> socket) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<grpc::Channel> TlsChannel(int task, int lane) const;
  grpc::ChannelArguments ArgumentsFor(int lane) const;
  void DropLink(Way& way) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropSoon(std::shared_ptr<grpc::Channel> channel) const;
  bool SetIncarnation(int task, uint64_t incarnation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GrpcTransportOptions* const options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const JobIdentity job_;
  const std::shared_ptr<Dialer> dialer_;

  mutable Mutex mu_;
  absl::flat_hash_map<std::pair<int, int>, Way> ways_
      ABSL_GUARDED_BY(mu_);  // Keyed by task and lane.
  absl::flat_hash_map<int, Process> processes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_
