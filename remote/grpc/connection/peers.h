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

// The other tasks as those see them who call: how to reach each, what to say to
// it, and which incarnation of it has answered. Channels are made when they are
// first asked for. Thread-safe.
class Peers {
 public:
  // `options` outlives this.
  Peers(const GrpcTransportOptions* options,
        std::shared_ptr<grpc::ChannelCredentials> credentials);

  // "task 3 (host:7000)".
  std::string Label(int task) const { return options_->cluster.Label(task); }

  // Where the task is reached over a Unix socket, if it is on this host; empty
  // if such sockets are not wanted.
  std::string SameHostAddress(int task) const;

  // INVALID_ARGUMENT if there is no such task.
  absl::Status CheckTask(int task) const;

  std::shared_ptr<grpc::Channel> ControlChannel(int task)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Each lane is a connection of its own.
  std::shared_ptr<grpc::Channel> TransferChannel(int task, int lane)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Of the process that was heard of last; 0 if none was.
  uint64_t incarnation(int task) const ABSL_LOCKS_EXCLUDED(mu_);

  // Puts into a call to `task` who makes it and which incarnation it is meant
  // for: that of the process heard of last, which is returned; 0 if none was,
  // or if the call is for any.
  uint64_t Identify(int task, grpc::ClientContext& context,
                    bool to_any_process = false) ABSL_LOCKS_EXCLUDED(mu_);

  // Frees the context of a call that has ended, and with it, maybe, a channel.
  void Free(std::unique_ptr<grpc::ClientContext> context) const;

  // Takes note of a process that calls. If it has taken the place of another
  // one, calls are meant for it from now on; and in any case they do not fail
  // because the task could not be reached before.
  void OnCall(const ControlCaller& caller) ABSL_LOCKS_EXCLUDED(mu_);

  // Takes note of the incarnation that answers a call which was meant for
  // `expected`. Errors: FAILED_PRECONDITION if that is another one. Calls that
  // are made from now on are meant for this one.
  absl::Status Observe(int task, uint64_t expected, uint64_t incarnation)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the channels. Blocks; not on a thread of gRPC's. Nothing is called
  // after this.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  static constexpr int kControlLane = -1;

  // A channel over a Unix socket is as good as its one connection, which is
  // also kept here, to be looked at.
  struct Way {
    std::shared_ptr<grpc::Channel> channel;
    FileDescriptor same_host;

    bool is_on_same_host() const { return same_host.get() >= 0; }
    bool is_failing() const;
  };

  // The processes that a task was, and is.
  struct Process {
    uint64_t incarnation = 0;
    std::deque<uint64_t> replaced;  // The last few.
  };

  std::shared_ptr<grpc::Channel> Channel(int task, int lane)
      ABSL_LOCKS_EXCLUDED(mu_);
  Way WayOnSameHost(int task, int lane) const;  // None if it has no channel.
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
      ABSL_GUARDED_BY(mu_);  // By task and lane.
  absl::flat_hash_map<int, Process> processes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_PEERS_H_
