#ifndef TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "tutti/cluster_runtime.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Other tasks, from the caller's side: how to reach each, how to identify a
// call to it, and which incarnation of it has answered. Makes a channel at its
// first use. Thread-safe.
class Peers {
 public:
  // `options` outlives this object.
  Peers(const GrpcTransportOptions* options,
        std::shared_ptr<grpc::ChannelCredentials> credentials);

  // Returns, for example, "task 3 (host:7000)".
  std::string Label(int task) const { return options_->cluster.Label(task); }

  // Returns the address of the task's Unix socket, in case it is on this host;
  // empty if such sockets are turned off.
  std::string SameHostAddress(int task) const;

  // Errors: INVALID_ARGUMENT if there is no such task.
  absl::Status CheckTask(int task) const;

  // Lane of control calls; the lanes of transfers are 0, 1, ...
  static constexpr int kControlLane = -1;

  // Returns the channel of a lane. Each lane is a separate connection.
  std::shared_ptr<grpc::Channel> Channel(int task, int lane)
      ABSL_LOCKS_EXCLUDED(mu_);

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

  // Drops the channels. Blocks; do not call on a thread of gRPC. Call last.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Channel to a task. A channel over a Unix socket lives as long as its one
  // connection, which is kept here to be checked.
  struct Way {
    std::shared_ptr<grpc::Channel> channel;
    FileDescriptor same_host;

    bool is_on_same_host() const { return same_host.get() >= 0; }
    bool is_failing() const;
  };

  // Present and former processes of a task.
  struct Process {
    uint64_t incarnation = 0;
    std::deque<uint64_t> replaced;  // Newest replaced incarnations.
  };

  Way WayOnSameHost(int task, int lane) const;  // No channel if that fails.
  Way WayOverTcp(int task, int lane) const;
  grpc::ChannelArguments ArgumentsFor(int lane) const;
  void DropSoon(Way way) const;
  bool SetIncarnation(int task, uint64_t incarnation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GrpcTransportOptions* const options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const JobIdentity job_;

  mutable Mutex mu_;
  absl::flat_hash_map<std::pair<int, int>, Way> ways_
      ABSL_GUARDED_BY(mu_);  // Keyed by task and lane.
  absl::flat_hash_map<int, Process> processes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_
