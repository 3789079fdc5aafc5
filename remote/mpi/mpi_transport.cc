#include "tutti/mpi_transport.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/environment_check.h"
#include "framework/base/status_macros.h"
#include "proto/mpi.pb.h"
#include "remote/mpi/collectives/mpi_calls.h"
#include "remote/mpi/collectives/mpi_collectives.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/mpi/messages/mpi_messages.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/messages/mpi_world.h"
#include "remote/mpi/mpi_pulls.h"
#include "remote/mpi/mpi_serves.h"
#include "remote/transport.h"
#include "remote/transport_registry.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

absl::Status ShutDown() {
  return absl::CancelledError("the transport has been shut down");
}

// Part of a transport on MPI's thread. Once closed, refuses all work until MPI
// ends.
class Endpoint final : public MpiPoller {
 public:
  explicit Endpoint(const MpiTransportOptions& options)
      : options_(options),
        messages_(&options.runtime->engine(), kMaxMessageBytes),
        calls_(std::make_shared<MpiCalls>(
            MpiCalls::Options{.cluster = options.cluster,
                              .clock = options.environment.clock,
                              .send = Sender(),
                              .post = Poster()})),
        pulls_(&options.runtime->engine(), Sender()),
        serves_({.runtime = &options.runtime->engine(),
                 .random = options.environment.random,
                 .send = Sender()}),
        gone_(options.cluster.num_tasks()) {}

  State Poll(bool is_last) override;
  void Stop() override { messages_.Close(); }
  bool IsHeldBy(int rank) const override { return serves_.IsHeldBy(rank); }

  // Functions for MPI's thread, or for late work (mpi_mailbox.h):
  void Open(ControlService* control, TransferService* transfers);
  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done);
  void Request(int task, const BufKey& key, const RecvRequest& recv);
  void Cancel(const TransferChannel::Choice& choice,
              const absl::Status& reason) {
    pulls_.Cancel(choice, reason);
    serves_.Cancel(choice, reason);
  }
  const MpiPulls& pulls() const { return pulls_; }
  void AddWaiting(int change) { num_waiting_ += change; }
  void OnSilent(int task, const absl::Status& reason);
  void Drop(int task, const absl::Status& reason);

  // Ends everything. `closed` runs when nothing is under way, or when that
  // takes too long.
  void Close(Work closed);

 private:
  MpiPulls::Send Sender() {
    return [this](int task, proto::MpiMessage message) {
      if (gone_[task].ok()) Send(task, std::move(message));
    };
  }
  void Send(int task, proto::MpiMessage message);
  std::function<void(Work)> Poster() {
    return [mailbox = options_.runtime->engine().mailbox()](Work work) {
      mailbox->Post(std::move(work));
    };
  }

  absl::Status WhyNotRequest(int task) const;
  absl::Status Gone(int task) const {
    return absl::UnavailableError(
        absl::StrCat(options_.cluster.Label(task), " has shut down"));
  }
  void OnMessage(int task, const proto::MpiMessage& message);
  void OnGoodbye(int task);
  bool is_closing() const { return control_ == nullptr; }
  bool is_closed() const { return is_closing() && closed_ == nullptr; }
  bool EndClosing();

  const MpiTransportOptions options_;
  MpiMessages messages_;
  const std::shared_ptr<MpiCalls> calls_;
  MpiPulls pulls_;
  MpiServes serves_;

  // Null: closing, or closed.
  ControlService* control_ = nullptr;
  TransferService* transfers_ = nullptr;

  // Indexed by task: OK until the task has said goodbye.
  std::vector<absl::Status> gone_;

  // Sum of AddWaiting() changes. Late work may run on several threads.
  std::atomic<int> num_waiting_{0};
  absl::Time close_by_ = absl::InfiniteFuture();
  Work closed_;
};

void Endpoint::Open(ControlService* control, TransferService* transfers) {
  control_ = control;
  transfers_ = transfers;
  messages_.Open([this](int task, absl::string_view bytes) {
    proto::MpiMessage message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      OnMessage(task, message);
    }
  });
}

void Endpoint::Send(int task, proto::MpiMessage message) {
  message.set_incarnation(options_.incarnation);
  messages_.Send(task, message.SerializeAsString());
}

// Handles one chunk, after the work that others wait for: a chunk takes time. A
// task that says goodbye has ended or given up all its pulls.
MpiPoller::State Endpoint::Poll(bool /*is_last*/) {
  bool is_busy = pulls_.HandOnNext();
  is_busy = EndClosing() || is_busy;
  if (is_busy) return State::kBusy;
  if (serves_.is_sending() || pulls_.is_receiving()) return State::kMoving;
  const bool is_waiting = messages_.is_sending() || closed_ != nullptr;
  if (is_waiting) return State::kWaiting;
  return num_waiting_ > 0 ? State::kExpecting : State::kIdle;
}

// Ends Close(), and says goodbye: no task then waits for this one.
bool Endpoint::EndClosing() {
  if (closed_ == nullptr) return false;
  const bool is_quiet = pulls_.empty() && serves_.num_served() == 0;
  if (!is_quiet && options_.environment.clock->Now() <= close_by_) return false;
  serves_.ForgetUnreported();
  serves_.SayWhatComes();
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (task == options_.cluster.this_task) continue;
    proto::MpiMessage goodbye;
    goodbye.mutable_goodbye();
    Send(task, std::move(goodbye));
  }
  std::exchange(closed_, nullptr)();
  return true;
}

absl::Status Endpoint::WhyNotRequest(int task) const {
  return is_closing() ? ShutDown() : gone_[task];
}

void Endpoint::Call(int task, proto::ControlRequest request,
                    ControlCallOptions options, ControlDone done) {
  const absl::Status status = WhyNotRequest(task);
  if (!status.ok()) return std::move(done)(status);
  calls_->Call(task, std::move(request), std::move(options), std::move(done));
}

void Endpoint::Request(int task, const BufKey& key, const RecvRequest& recv) {
  const absl::Status status = WhyNotRequest(task);
  if (status.ok()) return pulls_.Request(task, key, recv);
  recv.receiver->OnDelivery(recv.id, status, {});
}

void Endpoint::OnMessage(int task, const proto::MpiMessage& message) {
  const ControlCaller caller{.task = task,
                             .incarnation = message.incarnation()};
  const absl::Status refusal = Gone(options_.cluster.this_task);
  switch (message.kind_case()) {
    case proto::MpiMessage::kCall:
      if (is_closing()) return calls_->Refuse(task, message.call(), refusal);
      return calls_->OnCall(caller, message.call(), control_);
    case proto::MpiMessage::kAnswer:
      return calls_->OnAnswer(task, message.answer());
    case proto::MpiMessage::kWithdraw:
      return calls_->OnWithdraw(task, message.withdraw());
    case proto::MpiMessage::kPull:
      return serves_.OnPull(caller, message.pull(), transfers_, refusal);
    case proto::MpiMessage::kCancelPull:
      return serves_.OnCancelPull(task, message.cancel_pull());
    case proto::MpiMessage::kPulled:
      return pulls_.OnPulled(task, message.pulled());
    case proto::MpiMessage::kPlace:
      return pulls_.OnPlace(task, message.place());
    case proto::MpiMessage::kRead:
      return serves_.OnRead(task, message.read());
    case proto::MpiMessage::kSendRest:
      return serves_.OnSendRest(task, message.send_rest());
    case proto::MpiMessage::kGoodbye:
      return OnGoodbye(task);
    case proto::MpiMessage::KIND_NOT_SET:
      return;
  }
}

void Endpoint::OnGoodbye(int task) {
  gone_[task] = Gone(task);
  options_.runtime->engine().CallFound(task);
  calls_->EndAllOf(task, gone_[task]);
  pulls_.OnGoodbye(task, gone_[task]);
  serves_.StopAllOf(task, gone_[task]);
}

// The runtime may be gone once this is closed.
void Endpoint::OnSilent(int task, const absl::Status& reason) {
  if (is_closed() || !gone_[task].ok()) return;
  options_.runtime->engine().CallLost(task, reason);
}

void Endpoint::Drop(int task, const absl::Status& reason) {
  if (is_closed()) return;
  calls_->EndAllOf(task, reason);
  pulls_.CancelAllOf(task, reason);
  serves_.StopAllOf(task, reason);
}

void Endpoint::Close(Work closed) {
  control_ = nullptr;
  transfers_ = nullptr;
  closed_ = std::move(closed);
  close_by_ = options_.environment.clock->Now() + DefaultTime("unreceived");
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    calls_->EndAllOf(task, ShutDown());
    pulls_.CancelAllOf(task, ShutDown());
    serves_.StopAllOf(task, Gone(options_.cluster.this_task));
  }
}

class MpiTransport final : public Transport,
                           public ControlChannel,
                           public TransferChannel {
 public:
  explicit MpiTransport(const MpiTransportOptions& options)
      : runtime_(&options.runtime->engine()),
        mailbox_(options.runtime->engine().mailbox()),
        num_tasks_(options.cluster.num_tasks()),
        least_device_bytes_(options.runtime->is_cuda_aware()
                                ? kMaxInlineBytes + 1
                                : kNoDeviceBytes),
        endpoint_(std::make_shared<Endpoint>(options)),
        collectives_(std::make_shared<MpiCollectives>(
            MpiCollectives::Options{.runtime = &options.runtime->engine(),
                                    .cluster = options.cluster,
                                    .environment = options.environment})) {}
  ~MpiTransport() override { Shutdown(); }

  ControlChannel& control() override { return *this; }
  TransferChannel& transfers() override { return *this; }
  CollectiveDelegate* delegate() override { return collectives_.get(); }
  size_t least_device_bytes() const override { return least_device_bytes_; }

  // Costs are unknown between hosts, which some network connects.
  CostModel cost_model() const override {
    const auto world = runtime_->world();
    const bool is_one_host = world.ok() && (*world)->local_size == num_tasks_;
    return is_one_host
               ? MpiCostOnOneHost(num_tasks_, (*world)->local_processors)
               : CostModel();
  }

  absl::Status Start(ControlService* control,
                     TransferService* transfers) override {
    RETURN_IF_ERROR(runtime_->world().status());
    State expected = State::kNew;
    if (!state_.compare_exchange_strong(expected, State::kStarted)) {
      return absl::FailedPreconditionError("the transport has been started");
    }
    mailbox_->Post([runtime = runtime_, endpoint = endpoint_,
                    collectives = collectives_, control, transfers] {
      endpoint->Open(control, transfers);
      collectives->Open();
      runtime->Add(endpoint);
      runtime->Add(collectives);
    });
    return absl::OkStatus();
  }

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    const absl::Status status = Check(task);
    if (!status.ok()) return std::move(done)(status);
    Post([task, request = std::move(request), options = std::move(options),
          done = std::move(done)](Endpoint& endpoint) mutable {
      endpoint.Call(task, std::move(request), std::move(options),
                    std::move(done));
    });
  }

  void AddWaiting(int change) override {
    Post([change](Endpoint& endpoint) { endpoint.AddWaiting(change); });
  }

  void Request(int task, const BufKey& key, const RecvRequest& recv) override {
    const absl::Status status = Check(task);
    if (!status.ok()) return recv.receiver->OnDelivery(recv.id, status, {});
    Post([task, key, recv](Endpoint& endpoint) {
      endpoint.Request(task, key, recv);
    });
  }

  void Cancel(const Choice& choice, const absl::Status& reason) override {
    Post([choice, reason](Endpoint& endpoint) {
      endpoint.Cancel(choice, reason);
    });
  }
  std::vector<BufKey> UnderWay(const Choice& choice) override {
    return endpoint_->pulls().UnderWay(choice);
  }

  void Drop(const ControlCaller& process, const absl::Status& reason) override {
    Post([collectives = collectives_, task = process.task,
          reason](Endpoint& endpoint) {
      endpoint.Drop(task, reason);
      collectives->Drop(task, reason);
    });
  }

  void OnSilent(int task, const absl::Status& reason) override {
    Post([task, reason](Endpoint& endpoint) {
      endpoint.OnSilent(task, reason);
    });
  }

  void Shutdown() override {
    const State before = state_.exchange(State::kOver);
    if (before != State::kStarted || !runtime_->world().ok()) return;
    Await([this](Work closed) { collectives_->Close(std::move(closed)); });
    Await([this](Work closed) { endpoint_->Close(std::move(closed)); });
  }

 private:
  enum class State { kNew, kStarted, kOver };

  // Runs `work` with the endpoint on MPI's thread.
  template <typename WorkOfEndpoint>
  void Post(WorkOfEndpoint work) {
    mailbox_->Post([endpoint = endpoint_, work = std::move(work)]() mutable {
      work(*endpoint);
    });
  }

  // Blocks until the operation started by `begin` on MPI's thread has ended.
  template <typename Begin>
  void Await(Begin begin) {
    BlockingCounter ended(1);
    mailbox_->Post([&] { begin([&] { ended.DecrementCount(); }); });
    ended.Wait();
  }

  absl::Status Check(int task) const {
    if (state_ != State::kStarted) return ShutDown();
    if (task >= 0 && task < num_tasks_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no task ", task, ": the cluster has ", num_tasks_, " tasks"));
  }

  MpiEngine* const runtime_;  // Valid until Shutdown().
  const std::shared_ptr<MpiMailbox> mailbox_;
  const int num_tasks_;
  const size_t least_device_bytes_;
  const std::shared_ptr<Endpoint> endpoint_;
  const std::shared_ptr<MpiCollectives> collectives_;
  std::atomic<State> state_{State::kNew};
};

}  // namespace

absl::StatusOr<ClusterSpec> ClusterOf(const MpiRuntime& runtime) {
  ASSIGN_OR_RETURN(const auto rank, runtime.rank());
  ASSIGN_OR_RETURN(const auto hosts, runtime.hosts());
  ClusterSpec cluster{.this_task = rank};
  for (const std::string& host : hosts) {
    cluster.addresses.push_back(
        absl::StrCat(host, ":", cluster.addresses.size() + 1));
  }
  return cluster;
}

absl::StatusOr<std::shared_ptr<Transport>> CreateMpiTransport(
    MpiTransportOptions options) {
  RETURN_IF_ERROR(Validate(options.cluster));
  RETURN_IF_ERROR(Validate(options.environment));
  if (options.runtime == nullptr) {
    return absl::InvalidArgumentError("nothing is given that runs MPI");
  }
  ASSIGN_OR_RETURN(const auto size, options.runtime->size());
  ASSIGN_OR_RETURN(const auto rank, options.runtime->rank());
  if (options.cluster.num_tasks() != size ||
      options.cluster.this_task != rank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this is task ", options.cluster.this_task, " of ",
        options.cluster.num_tasks(), ", but rank ", rank, " of ", size));
  }
  if (options.incarnation == 0) {
    return absl::InvalidArgumentError("0 is no incarnation of a task");
  }
  return std::make_shared<MpiTransport>(options);
}

namespace {

// Starts MPI in this process, which mpirun must have started. MPI ends when the
// last owner of the network releases it. Blocks until all processes of the job
// call this. Errors: those of MpiRuntime::Start().
absl::StatusOr<TaskNetwork> Connect(const NetworkSettings& settings) {
  auto runtime = std::make_shared<MpiRuntime>(
      MpiRuntime::Options{.environment = settings.environment});
  RETURN_IF_ERROR(runtime->Start());
  ASSIGN_OR_RETURN(const auto cluster, ClusterOf(*runtime));
  return TaskNetwork{.cluster = cluster,
                     .make_transport = [environment = settings.environment,
                                        runtime, cluster](uint64_t incarnation)
                         -> absl::StatusOr<std::shared_ptr<Transport>> {
                       return CreateMpiTransport({.runtime = runtime.get(),
                                                  .cluster = cluster,
                                                  .incarnation = incarnation,
                                                  .environment = environment});
                     }};
}

REGISTER_TRANSPORT(MPI, Connect, MpiHeaderSaysItIsCudaAware());

}  // namespace

}  // namespace tutti
