#ifndef TUTTI_TESTS_CLUSTER_SIMULATED_CLUSTER_H_
#define TUTTI_TESTS_CLUSTER_SIMULATED_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "named_tensors/coordinator_server.h"
#include "proto/control.pb.h"
#include "resolvers/membership/cluster_control.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/device.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Tasks of a cluster in one process. Each task has separate objects. The
// network between tasks delays messages, loses none by itself, and breaks when
// the test says so. Messages are serialised. Everything runs on the test's
// thread, at virtual times that the seed determines.
class SimulatedCluster {
 public:
  struct Options {
    int num_tasks = 2;
    int devices_per_task = 1;
    uint64_t seed = 1;
    HealthProfile health = HealthProfile::Default();
    absl::Duration min_delay = absl::Microseconds(50);
    absl::Duration max_delay = absl::Milliseconds(2);
    size_t max_entries = size_t{1} << 19;

    std::vector<SelectionPolicy> policies;  // By task; else the default.

    // Sets attributes of a device other than its name and its process. Null:
    // sets none.
    std::function<void(DeviceAttributes& device)> describe_device;

    // Number of a task whose list of tasks lacks the last one.
    std::optional<int> has_shorter_list;
  };

  // Result of a member's call.
  struct Call {
    std::shared_ptr<Cancellation> token = std::make_shared<Cancellation>();
    std::vector<absl::StatusOr<std::shared_ptr<const CollectiveParams>>>
        answers;
    absl::Time answered_at;

    // Message that a deadline would have now.
    std::function<std::string()> describe;

    bool waits() const { return answers.empty(); }
    absl::Status status() const {
      return waits() ? absl::UnknownError("the call waits")
                     : answers[0].status();
    }
    const CollectiveParams& params() const { return **answers[0]; }
    friend absl::Status EndOf(const Call& call) { return call.status(); }
  };
  using CallPtr = std::shared_ptr<Call>;

  struct Traffic {
    int64_t messages = 0;
    int64_t bytes = 0;
  };

  explicit SimulatedCluster(Options options);
  ~SimulatedCluster();
  SimulatedCluster(const SimulatedCluster&) = delete;
  SimulatedCluster& operator=(const SimulatedCluster&) = delete;

  // Starts a task that is not running; the task then joins.
  void Start(int task, absl::Duration join_limit = absl::Seconds(60));

  // Starts all tasks, and runs until they have joined.
  void StartAll();

  // Ends the process and closes its connections.
  void Kill(int task);
  void Restart(int task);

  // Stops the process for `duration`; its connections stay open.
  void Stall(int task, absl::Duration duration);

  // Blocks all messages between the two tasks; neither task is notified.
  void Partition(int a, int b);
  void Heal(int a, int b);

  void RunFor(absl::Duration duration) { environment_.Advance(duration); }
  absl::Time Now() { return environment_.get().clock->Now(); }

  bool is_alive(int task) const { return processes_[task] != nullptr; }
  ClusterControl& control(int task) { return *processes_[task]->control; }
  GroupDirectory& directory(int task) { return *processes_[task]->directory; }

  // Status of Join(), once it has ended.
  std::optional<absl::Status> join_status(int task) const {
    return processes_[task]->join_status;
  }
  const std::vector<std::vector<int>>& progress(int task) const {
    return processes_[task]->progress;
  }
  DeviceAttributes Device(int task, int index) const;
  std::string Label(int task) const { return ClusterOf(0).Label(task); }

  // Makes a member's call. The call belongs to the task's process: it gets no
  // answer after Kill(). Without a number, the call is the only one of its
  // execution.
  CallPtr Request(int task, int index, const CollectiveRequest& request,
                  std::optional<CallNumber> number = std::nullopt);

  // Makes a member's call for the group alone. Its params have nothing else.
  CallPtr RequestGroup(int task, int index, const CollectiveRequest& request);

  // Sends a message as `caller`, bypassing the caller's objects.
  void Send(ControlCaller caller, int to, proto::ControlRequest request,
            ControlDone done);

  // Messages until now, except heartbeats; traffic_of() counts those that a
  // task has sent or received.
  Traffic traffic() const { return traffic_; }
  Traffic traffic_of(int task) const { return traffic_of_[task]; }

 private:
  class ProcessClock;
  class Channel;

  struct Process {
    int task = 0;
    uint64_t incarnation = 0;
    bool is_dead = false;
    absl::Time stalled_until = absl::InfinitePast();
    std::unique_ptr<ProcessClock> clock;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<DeviceManager> devices;
    const std::shared_ptr<GroupDirectory> directory =
        std::make_shared<GroupDirectory>();
    std::shared_ptr<CoordinatorServer> named_tensors;  // Used by task 0.
    std::shared_ptr<ClusterControl> control;
    std::optional<absl::Status> join_status;
    std::vector<std::vector<int>> progress;
  };

  // A request that is not answered yet.
  struct Exchange {
    uint64_t id = 0;
    Process* from = nullptr;  // Null: sent by Send().
    ControlCaller caller;
    int to = 0;
    std::string request;
    ControlCallOptions options;
    ControlDone done;
    Process* server = nullptr;  // Set once the request has arrived.
    std::shared_ptr<Cancellation> withdrawn = std::make_shared<Cancellation>();
    bool is_over = false;
    bool is_heartbeat = false;
  };
  using ExchangePtr = std::shared_ptr<Exchange>;

  ClusterSpec ClusterOf(int this_task) const;
  absl::Duration Delay();
  void After(absl::Duration delay, Work work);

  // Runs `work` once the process can run; drops it if the process has ended.
  void RunIn(Process* process, std::function<void()> work);

  void Begin(const ExchangePtr& exchange);
  void DeliverRequest(const ExchangePtr& exchange);
  void SendReply(const ExchangePtr& exchange, const ControlAnswer& answer);
  void DeliverReply(const ExchangePtr& exchange, ControlAnswer answer);
  void Withdraw(const ExchangePtr& exchange, const absl::Status& reason);
  void Finish(const ExchangePtr& exchange, ControlAnswer answer);
  bool IsCut(const Exchange& exchange) const;
  void Count(const Exchange& exchange, size_t bytes);

  const Options options_;
  SimulatedEnvironment environment_;
  std::mt19937_64 generator_;
  // By task; null: not running.
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Process>> dead_;
  std::set<std::pair<int, int>> cuts_;
  std::map<uint64_t, ExchangePtr> exchanges_;
  uint64_t last_exchange_ = 0;
  uint64_t last_call_ = uint64_t{1} << 32;  // Far from numbers that tests pass.
  Traffic traffic_;
  std::vector<Traffic> traffic_of_;
};

// Key of the group in tests with one group.
inline constexpr GroupKey kGroup = 7;

// An all-reduce of 4 floats by a member of a group of `size`.
CollectiveRequest AllReduceOf(GroupKey group_key, int size,
                              InstanceKey instance_key);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_SIMULATED_CLUSTER_H_
