#include "tests/cluster/simulated_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tutti/device.h"

namespace tutti {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(50);

}  // namespace

// Clock of a process: its time is the common one, but its alarms run only when
// the process can run.
class SimulatedCluster::ProcessClock : public Clock {
 public:
  ProcessClock(Clock* clock, Process* process)
      : clock_(clock), process_(process) {}

  absl::Time Now() override { return clock_->Now(); }

  AlarmId CallAt(absl::Time when, Work alarm) override {
    const AlarmId id = ++last_id_;
    alarms_[id] = {std::move(alarm), 0};
    Arm(id, when);
    return id;
  }

  bool Cancel(AlarmId id) override {
    const auto found = alarms_.find(id);
    if (found == alarms_.end()) return false;
    clock_->Cancel(found->second.second);
    Work cancelled = std::move(found->second.first);
    alarms_.erase(found);
    return true;
  }

  void Clear() {
    const auto alarms = std::move(alarms_);
    alarms_.clear();
  }

 private:
  void Arm(AlarmId id, absl::Time when) {
    alarms_[id].second = clock_->CallAt(when, [this, id] { Ring(id); });
  }

  void Ring(AlarmId id) {
    const auto found = alarms_.find(id);
    if (found == alarms_.end() || process_->is_dead) return;
    if (clock_->Now() < process_->stalled_until) {
      return Arm(id, process_->stalled_until);
    }
    Work alarm = std::move(found->second.first);
    alarms_.erase(found);
    std::move(alarm)();
  }

  Clock* const clock_;
  Process* const process_;
  AlarmId last_id_ = 0;
  std::map<AlarmId, std::pair<Work, AlarmId>> alarms_;
};

class SimulatedCluster::Channel : public ControlChannel {
 public:
  Channel(SimulatedCluster* cluster, Process* process)
      : cluster_(cluster), process_(process) {}

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    const auto exchange = std::make_shared<Exchange>();
    exchange->from = process_;
    exchange->caller = {process_->task, process_->incarnation};
    exchange->to = task;
    exchange->request = request.SerializeAsString();
    exchange->is_heartbeat = request.has_heartbeat();
    exchange->options = std::move(options);
    exchange->done = std::move(done);
    cluster_->Begin(exchange);
  }

 private:
  SimulatedCluster* const cluster_;
  Process* const process_;
};

SimulatedCluster::SimulatedCluster(Options options)
    : options_(options),
      environment_(options_.seed),
      generator_(options_.seed),
      processes_(options_.num_tasks),
      traffic_of_(options_.num_tasks) {}

SimulatedCluster::~SimulatedCluster() {
  for (auto& process : processes_) {
    if (process != nullptr) dead_.push_back(std::move(process));
  }
  for (auto& process : dead_) process->is_dead = true;
  std::vector<ControlDone> dones;
  for (auto& [id, exchange] : exchanges_) {
    exchange->is_over = true;
    dones.push_back(std::move(exchange->done));
  }
  exchanges_.clear();
  dones.clear();
  for (auto& process : dead_) {
    process->control = nullptr;
    process->named_tensors = nullptr;
  }
  // Runs the remaining alarms, which own parts of the processes.
  RunFor(absl::Hours(1));
  for (auto& process : dead_) process->clock->Clear();
  RunFor(absl::Hours(1));
}

ClusterSpec SimulatedCluster::ClusterOf(int this_task) const {
  ClusterSpec cluster;
  for (int task = 0; task < options_.num_tasks; ++task) {
    cluster.addresses.push_back(absl::StrCat("host", task, ":7000"));
  }
  cluster.this_task = this_task;
  return cluster;
}

absl::Duration SimulatedCluster::Delay() {
  const int64_t range =
      absl::ToInt64Microseconds(options_.max_delay - options_.min_delay);
  return options_.min_delay +
         absl::Microseconds(static_cast<int64_t>(
             generator_() % static_cast<uint64_t>(range + 1)));
}

void SimulatedCluster::After(absl::Duration delay, Work work) {
  Clock* const clock = environment_.get().clock;
  clock->CallAt(clock->Now() + delay, std::move(work));
}

void SimulatedCluster::RunIn(Process* process, std::function<void()> work) {
  if (process->is_dead) return;
  const absl::Duration stalled = process->stalled_until - Now();
  if (stalled <= absl::ZeroDuration()) return work();
  After(stalled, [this, process, work = std::move(work)]() mutable {
    RunIn(process, std::move(work));
  });
}

// --- Processes ---------------------------------------------------------------

void SimulatedCluster::Start(int task, absl::Duration join_limit) {
  processes_[task] = std::make_unique<Process>();
  Process* const process = processes_[task].get();
  const Environment& shared = environment_.get();
  process->task = task;
  process->incarnation = shared.random->Next();
  process->clock = std::make_unique<ProcessClock>(shared.clock, process);
  process->channel = std::make_shared<Channel>(this, process);
  std::vector<std::unique_ptr<tutti::Device>> devices;
  for (int i = 0; i < options_.devices_per_task; ++i) {
    DeviceAttributes device = {.name = {"worker", 0, task, "CPU", i},
                               .incarnation = process->incarnation};
    if (options_.describe_device) options_.describe_device(device);
    devices.push_back(std::make_unique<CpuDevice>(std::move(device)));
  }
  process->devices = *DeviceManager::Create(std::move(devices));
  ClusterSpec cluster = ClusterOf(task);
  if (options_.has_shorter_list == task) cluster.addresses.pop_back();
  if (task == 0) {
    process->named_tensors = CoordinatorServer::Create(
        {.cluster = ClusterOf(task), .clock = process->clock.get()});
  }
  process->control = ClusterControl::Create(
      {.cluster = std::move(cluster),
       .environment = {shared.queue, process->clock.get(), shared.random},
       .channel = process->channel,
       .directory = process->directory,
       .devices = process->devices,
       .incarnation = process->incarnation,
       .health = options_.health,
       .policy = static_cast<size_t>(task) < options_.policies.size()
                     ? options_.policies[static_cast<size_t>(task)]
                     : SelectionPolicy(),
       .max_entries = options_.max_entries,
       .named_tensors = process->named_tensors});
  process->control->Join(
      Now() + join_limit,
      [process](const std::vector<int>& missing) {
        process->progress.push_back(missing);
      },
      [process](absl::Status status) {
        process->join_status = std::move(status);
      });
}

void SimulatedCluster::StartAll() {
  for (int task = 0; task < options_.num_tasks; ++task) Start(task);
  RunFor(absl::Seconds(1));
}

void SimulatedCluster::Kill(int task) {
  Process* const process = processes_[task].get();
  process->is_dead = true;
  dead_.push_back(std::move(processes_[task]));
  std::vector<ExchangePtr> exchanges;
  for (const auto& [id, exchange] : exchanges_) exchanges.push_back(exchange);
  for (const ExchangePtr& exchange : exchanges) {
    if (exchange->from == process) {
      exchange->is_over = true;
      exchanges_.erase(exchange->id);
      Withdraw(exchange, absl::CancelledError("the caller is gone"));
    } else if (exchange->server == process) {
      After(Delay(), [this, exchange] {
        DeliverReply(exchange,
                     absl::UnavailableError(absl::StrCat(
                         Label(exchange->to), ": connection closed")));
      });
    }
  }
}

void SimulatedCluster::Restart(int task) {
  if (is_alive(task)) Kill(task);
  Start(task);
}

void SimulatedCluster::Stall(int task, absl::Duration duration) {
  processes_[task]->stalled_until = Now() + duration;
}

void SimulatedCluster::Partition(int a, int b) {
  cuts_.insert(std::minmax(a, b));
}

void SimulatedCluster::Heal(int a, int b) { cuts_.erase(std::minmax(a, b)); }

DeviceAttributes SimulatedCluster::Device(int task, int index) const {
  return processes_[task]->devices->devices()[index]->attributes();
}

// --- Messages ----------------------------------------------------------------

bool SimulatedCluster::IsCut(const Exchange& exchange) const {
  return cuts_.contains(std::minmax(exchange.caller.task, exchange.to));
}

void SimulatedCluster::Count(const Exchange& exchange, size_t bytes) {
  if (exchange.is_heartbeat) return;
  for (Traffic* traffic : {&traffic_, &traffic_of_[exchange.caller.task],
                           &traffic_of_[exchange.to]}) {
    ++traffic->messages;
    traffic->bytes += static_cast<int64_t>(bytes);
  }
}

void SimulatedCluster::Begin(const ExchangePtr& exchange) {
  exchange->id = ++last_exchange_;
  exchanges_[exchange->id] = exchange;
  Count(*exchange, exchange->request.size());
  const ControlCallOptions& options = exchange->options;
  if (options.deadline != absl::InfiniteFuture()) {
    After(options.deadline - Now(), [this, exchange] {
      if (exchange->is_over) return;
      const auto end = [this, exchange] {
        const auto status = absl::DeadlineExceededError(
            absl::StrCat(Label(exchange->to), " did not answer in time"));
        Withdraw(exchange, status);
        Finish(exchange, status);
      };
      exchange->from == nullptr ? end() : RunIn(exchange->from, end);
    });
  }
  After(Delay(), [this, exchange] { DeliverRequest(exchange); });
  if (options.cancellation == nullptr) return;
  options.cancellation->Watch([this, weak = std::weak_ptr<Exchange>(exchange)](
                                  const absl::Status& reason) {
    const ExchangePtr cancelled = weak.lock();
    if (cancelled == nullptr || cancelled->is_over) return;
    Withdraw(cancelled, reason);
    Finish(cancelled, reason);
  });
}

void SimulatedCluster::DeliverRequest(const ExchangePtr& exchange) {
  if (exchange->is_over) return;
  const auto again = [this, exchange] { DeliverRequest(exchange); };
  if (IsCut(*exchange)) return After(kTryAgain, again);
  Process* const server = processes_[exchange->to].get();
  if (server == nullptr) {
    if (exchange->options.wait_until_reachable) {
      return After(kTryAgain, again);
    }
    return After(Delay(), [this, exchange] {
      DeliverReply(exchange, absl::UnavailableError(absl::StrCat(
                                 Label(exchange->to), ": connection refused")));
    });
  }
  exchange->server = server;
  RunIn(server, [this, exchange] {
    if (exchange->is_over) return;
    proto::ControlRequest request;
    if (!request.ParseFromString(exchange->request)) {
      return SendReply(exchange, absl::InvalidArgumentError("no message"));
    }
    exchange->server->control->Handle(exchange->caller, request,
                                      exchange->withdrawn,
                                      [this, exchange](ControlAnswer answer) {
                                        if (!exchange->is_over)
                                          SendReply(exchange, answer);
                                      });
  });
}

void SimulatedCluster::SendReply(const ExchangePtr& exchange,
                                 const ControlAnswer& answer) {
  Count(*exchange, answer.ok() ? answer->ByteSizeLong()
                               : answer.status().message().size());
  After(Delay(), [this, exchange, answer] { DeliverReply(exchange, answer); });
}

void SimulatedCluster::DeliverReply(const ExchangePtr& exchange,
                                    ControlAnswer answer) {
  if (exchange->is_over) return;
  if (IsCut(*exchange)) {
    return After(kTryAgain, [this, exchange, answer = std::move(answer)] {
      DeliverReply(exchange, answer);
    });
  }
  if (exchange->from == nullptr) return Finish(exchange, std::move(answer));
  RunIn(exchange->from, [this, exchange, answer = std::move(answer)] {
    Finish(exchange, answer);
  });
}

// Tells the server that no one waits for its answer.
void SimulatedCluster::Withdraw(const ExchangePtr& exchange,
                                const absl::Status& reason) {
  After(Delay(), [this, exchange, reason] {
    if (exchange->server == nullptr || exchange->server->is_dead) return;
    if (IsCut(*exchange)) return Withdraw(exchange, reason);
    RunIn(exchange->server,
          [exchange, reason] { exchange->withdrawn->Cancel(reason); });
  });
}

void SimulatedCluster::Finish(const ExchangePtr& exchange,
                              ControlAnswer answer) {
  if (exchange->is_over) return;
  exchange->is_over = true;
  exchanges_.erase(exchange->id);
  std::move(exchange->done)(std::move(answer));
}

SimulatedCluster::CallPtr SimulatedCluster::Request(
    int task, int index, const CollectiveRequest& request,
    std::optional<CallNumber> number) {
  const auto call = std::make_shared<Call>();
  const auto shared = std::make_shared<const CollectiveRequest>(request);
  Process* const process = processes_[task].get();
  call->describe = [process, shared] {
    return process->control->param_resolver()->DescribeWaiting(*shared);
  };
  process->control->param_resolver()->CompleteInstanceAsync(
      Device(task, index), shared,
      number.value_or(CallNumber{.execution = ++last_call_}), call->token,
      [this, call](auto answer) {
        call->answered_at = Now();
        call->answers.push_back(std::move(answer));
      });
  return call;
}

SimulatedCluster::CallPtr SimulatedCluster::RequestGroup(
    int task, int index, const CollectiveRequest& request) {
  const auto call = std::make_shared<Call>();
  Process* const process = processes_[task].get();
  call->describe = [process, request] {
    return process->control->param_resolver()->DescribeWaiting(request);
  };
  process->control->param_resolver()->CompleteGroupAsync(
      Device(task, index), request, call->token, [this, call](auto group) {
        call->answered_at = Now();
        if (!group.ok()) return call->answers.push_back(group.status());
        auto params = std::make_shared<CollectiveParams>();
        params->group = *std::move(group);
        call->answers.emplace_back(std::move(params));
      });
  return call;
}

void SimulatedCluster::Send(ControlCaller caller, int to,
                            proto::ControlRequest request, ControlDone done) {
  const auto exchange = std::make_shared<Exchange>();
  exchange->caller = caller;
  exchange->to = to;
  exchange->request = request.SerializeAsString();
  exchange->done = std::move(done);
  Begin(exchange);
}

CollectiveRequest AllReduceOf(GroupKey group_key, int size,
                              InstanceKey instance_key) {
  CollectiveRequest request;
  request.group_key = group_key;
  request.group_size = size;
  request.instance_key = instance_key;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(4);
  return request;
}

}  // namespace tutti
