#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_CALLS_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "proto/mpi.pb.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Control calls between this task and others, as messages. For one thread, on
// which `post` runs work; `post` may be called after this object is gone.
class MpiCalls : public std::enable_shared_from_this<MpiCalls> {
 public:
  struct Options {
    ClusterSpec cluster;
    Clock* clock = nullptr;
    std::function<void(int task, proto::MpiMessage message)> send;
    std::function<void(Work work)> post;  // Runs work; on any thread.
  };

  explicit MpiCalls(Options options) : options_(std::move(options)) {}

  // Calls of this task.
  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done);
  void OnAnswer(int task, const proto::MpiAnswer& answer);

  // Calls of other tasks, which `service` answers.
  void OnCall(const ControlCaller& caller, const proto::MpiCall& call,
              ControlService* service);
  void OnWithdraw(int task, const proto::MpiWithdraw& withdraw);

  // Ends the calls to `task`, and withdraws its calls.
  void EndAllOf(int task, const absl::Status& reason);

  // Answers a call with an error, instead of OnCall().
  void Refuse(int task, const proto::MpiCall& call, const absl::Status& why);

 private:
  struct Pending {
    int task = 0;
    ControlDone done;
    Clock::AlarmId alarm = 0;
    std::shared_ptr<Cancellation> cancellation;
    Cancellation::WatchId watch = 0;
  };

  void GiveUp(uint64_t id, const absl::Status& reason);
  void End(uint64_t id, ControlAnswer answer);
  void Answer(int task, uint64_t id, const ControlAnswer& answer);

  const Options options_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, Pending> pending_;
  absl::flat_hash_map<std::pair<int, uint64_t>, std::shared_ptr<Cancellation>>
      served_;  // Keyed by caller and its id.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_CALLS_H_
