#include "tests/cluster/loopback_network.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tutti/tensor.h"

namespace tutti {

// A request for bytes. The sender's task answers it; it delivers once to the
// receiver.
class LoopbackNetwork::Pull : public ServedRequest {
 public:
  Pull(LoopbackNetwork* network, const ControlCaller& caller, const BufKey& key,
       const RecvRequest& recv)
      : ServedRequest(caller, key, recv), network_(network), recv_(recv) {}

  // Runs once, before the receiver gets its delivery.
  void SetOnEnd(Work on_end) { on_end_ = std::move(on_end); }

  // Ends the request for the receiver, unless it has ended or is being read.
  void End(const absl::Status& reason) {
    if (!BeginEnd(reason)) return;
    Release(reason);
    Report(reason);
  }

  // Ends the request for its sender, if bytes wait to be read.
  void TakeBack(const absl::Status& reason) {
    {
      MutexLock lock(&mu_);
      if (!delivery_.has_value() || end_.has_value()) return;
      end_ = reason;
    }
    Release(reason);
    Deliver([self = self(), reason] { self->Report(reason); });
  }

  // Marks that the sender's side knows of the end.
  void SetWithdrawn() { is_withdrawn_ = true; }
  bool is_withdrawn() const { return is_withdrawn_; }

 private:
  void OnAnswer(absl::Status status, const Delivery& delivery) override {
    // The receiver's side hears of the end from others.
    if (is_withdrawn_ && !status.ok()) return;
    if (status.ok()) {
      MutexLock lock(&mu_);
      delivery_ = delivery;
    }
    Deliver([self = self(), status = std::move(status), delivery] {
      self->Send(status, delivery);
    });
  }

  void Send(absl::Status status, const Delivery& delivery) {
    if (!BeginEnd(status)) return Release(WhyItEnded());
    if (!status.ok()) return Report(std::move(status));
    const size_t part_bytes = network_->part_elements_ * SizeOf(recv_.dtype);
    for (size_t offset = 0; offset < delivery.bytes.size() && status.ok();
         offset += part_bytes) {
      absl::Span<const std::byte> part =
          delivery.bytes.subspan(offset, part_bytes);
      const bool is_even = offset / part_bytes % 2 == 0;
      if (is_even && !recv_.into.empty()) {
        const auto place = recv_.into.subspan(offset, part.size());
        absl::c_copy(part, place.begin());
        part = place;
      }
      status = recv_.receiver->OnPart(recv_.id, offset, part);
    }
    Release(status);
    Report(std::move(status));
  }

  std::shared_ptr<Pull> self() {
    return std::static_pointer_cast<Pull>(shared_from_this());
  }

  // Runs `work` in the receiver's task.
  void Deliver(Work work);

  // Releases the bytes, if there are some and they are not released.
  void Release(absl::Status status) {
    std::optional<Delivery> delivery;
    {
      MutexLock lock(&mu_);
      delivery = std::exchange(delivery_, std::nullopt);
    }
    if (delivery.has_value()) delivery->Release(std::move(status));
  }

  // Returns false if the end has begun before, for another reason.
  bool BeginEnd(const absl::Status& reason) {
    MutexLock lock(&mu_);
    if (end_.has_value()) return false;
    end_ = reason;
    return true;
  }
  absl::Status WhyItEnded() {
    MutexLock lock(&mu_);
    return *end_;
  }

  void Report(absl::Status status) {
    std::move(on_end_)();
    recv_.receiver->OnDelivery(recv_.id, std::move(status), {});
  }

  LoopbackNetwork* const network_;
  const RecvRequest recv_;
  Work on_end_;
  std::atomic<bool> is_withdrawn_{false};

  Mutex mu_;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  std::optional<Delivery> delivery_ ABSL_GUARDED_BY(mu_);
};

class LoopbackNetwork::Endpoint
    : public Transport,
      public ControlChannel,
      public TransferChannel,
      public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(LoopbackNetwork* network, ControlCaller self)
      : network_(network), self_(self) {}

  ControlChannel& control() override { return *this; }
  TransferChannel& transfers() override { return *this; }
  CostModel cost_model() const override { return kCosts; }
  absl::Status Start(ControlService* control,
                     TransferService* transfers) override {
    control_service_ = control;
    transfer_service_ = transfers;
    return absl::OkStatus();
  }
  // No message is in transit here: bytes are delivered in one piece of work.
  void Drop(const ControlCaller& /*process*/,
            const absl::Status& /*reason*/) override {}
  void Shutdown() override {
    is_cut_ = true;
    EndPulls([](const Pending&) { return true; }, Gone(self_.task));
    if (transfer_service_ == nullptr) return;
    for (const auto& pull : network_->PullsFrom(self_.task)) {
      pull->SetWithdrawn();
      transfer_service_->Withdraw(pull, Gone(self_.task));
    }
  }

  std::vector<std::shared_ptr<Pull>> PullsFrom(int task) {
    std::vector<std::shared_ptr<Pull>> pulls;
    MutexLock lock(&mu_);
    for (const auto& [key, pending] : pulls_) {
      if (pending.task == task) pulls.push_back(pending.pull);
    }
    return pulls;
  }

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    CountCall();
    Send([this, self = shared_from_this(), task, request = std::move(request),
          withdrawn = options.cancellation, done = std::move(done)]() mutable {
      const auto target = network_->Find(task);
      if (is_cut_ || target == nullptr || target->is_cut_) {
        return std::move(done)(Gone(task));
      }
      ControlDone answer_later =
          [this, self, done = std::move(done)](ControlAnswer answer) mutable {
            network_->queue_->Schedule(
                [done = std::move(done), answer = std::move(answer)]() mutable {
                  std::move(done)(std::move(answer));
                });
          };
      target->Read([target, caller = self_, request, withdrawn,
                    done = std::move(answer_later)]() mutable {
        target->control_service_->Handle(caller, request, withdrawn,
                                         std::move(done));
      });
    });
  }

  void Request(int task, const BufKey& key, const RecvRequest& recv) override {
    CountCall();
    const auto pull = std::make_shared<Pull>(network_, self_, key, recv);
    pull->SetOnEnd([this, pull = pull.get()] {
      MutexLock lock(&mu_);
      pulls_.erase(pull);
    });
    {
      MutexLock lock(&mu_);
      pulls_[pull.get()] = {task, pull};
    }
    SendTransfer([this, self = shared_from_this(), task, pull] {
      const auto target = network_->Find(task);
      if (is_cut_ || target == nullptr || target->is_cut_) {
        return pull->End(Gone(task));
      }
      if (pull->is_withdrawn()) return;
      target->transfer_service_->Serve(pull);
      if (pull->is_withdrawn()) {
        target->transfer_service_->Withdraw(pull, Gone(self_.task));
      }
    });
  }

  void Cancel(const Choice& choice, const absl::Status& reason) override {
    EndPulls([&](const Pending& pending) { return choice(pending.pull->key); },
             reason);
    for (const auto& pull : network_->PullsFrom(self_.task)) {
      if (choice(pull->key)) pull->TakeBack(reason);
    }
  }

  std::vector<BufKey> UnderWay(const Choice& choice) override {
    std::vector<BufKey> keys;
    MutexLock lock(&mu_);
    for (const auto& [pull, pending] : pulls_) {
      if (choice(pull->key)) keys.push_back(pull->key);
    }
    return keys;
  }

  void HoldCalls() {
    MutexLock lock(&mu_);
    holds_calls_ = true;
  }
  void ReleaseCalls() {
    std::vector<Work> held;
    {
      MutexLock lock(&mu_);
      holds_calls_ = false;
      held.swap(held_);
    }
    for (Work& call : held) network_->queue_->Schedule(std::move(call));
  }

  void HoldTransfers() {
    MutexLock lock(&mu_);
    holds_transfers_ = true;
  }
  void LetTransfersGo() {
    std::vector<Work> held;
    {
      MutexLock lock(&mu_);
      holds_transfers_ = false;
      held.swap(held_transfers_);
    }
    network_->queue_->Schedule([held = std::move(held)]() mutable {
      for (Work& transfer : held) std::move(transfer)();
    });
  }

  void Stop() {
    MutexLock lock(&mu_);
    is_stopped_ = true;
  }
  void Resume() {
    std::vector<Work> unread;
    {
      MutexLock lock(&mu_);
      is_stopped_ = false;
      unread.swap(unread_);
    }
    for (Work& work : unread) network_->queue_->Schedule(std::move(work));
  }

  // Runs the work of a message that has come, now or once this task is resumed.
  void Read(Work work) {
    {
      MutexLock lock(&mu_);
      if (is_stopped_) return unread_.push_back(std::move(work));
    }
    std::move(work)();
  }

  // Ends this endpoint's requests to a task that is cut off.
  void EndPullsFrom(int task) {
    EndPulls([task](const Pending& pending) { return pending.task == task; },
             Gone(task));
  }

 private:
  struct Pending {
    int task = 0;
    std::shared_ptr<Pull> pull;
  };

  // Ends the chosen requests.
  void EndPulls(absl::FunctionRef<bool(const Pending&)> chosen,
                const absl::Status& reason) {
    std::vector<Pending> ended;
    {
      MutexLock lock(&mu_);
      for (const auto& [pull, pending] : pulls_) {
        if (chosen(pending)) ended.push_back(pending);
      }
      for (const Pending& pending : ended) pulls_.erase(pending.pull.get());
    }
    for (const Pending& pending : ended) EndPull(pending, reason);
  }

  void Send(Work call) {
    {
      MutexLock lock(&mu_);
      if (holds_calls_) return held_.push_back(std::move(call));
    }
    network_->queue_->Schedule(std::move(call));
  }

  void SendTransfer(Work transfer) {
    {
      MutexLock lock(&mu_);
      if (holds_transfers_) {
        return held_transfers_.push_back(std::move(transfer));
      }
    }
    network_->queue_->Schedule(std::move(transfer));
  }

  void CountCall() {
    MutexLock lock(&network_->mu_);
    ++network_->num_calls_;
  }

  absl::Status Gone(int task) const {
    return absl::UnavailableError(absl::StrCat(
        network_->cluster_.Label(task), " cannot be reached: it was cut off"));
  }

  void EndPull(const Pending& pending, absl::Status reason) {
    network_->queue_->Schedule(
        [pull = pending.pull, reason] { pull->End(reason); });
    SendTransfer([network = network_, pending, reason] {
      pending.pull->SetWithdrawn();
      const auto target = network->Find(pending.task);
      if (target == nullptr || target->is_cut_) return;
      target->transfer_service_->Withdraw(pending.pull, reason);
    });
  }

  LoopbackNetwork* const network_;
  const ControlCaller self_;
  ControlService* control_service_ = nullptr;
  TransferService* transfer_service_ = nullptr;
  std::atomic<bool> is_cut_{false};
  Mutex mu_;
  absl::flat_hash_map<const Pull*, Pending> pulls_ ABSL_GUARDED_BY(mu_);
  bool holds_calls_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Work> held_ ABSL_GUARDED_BY(mu_);
  bool holds_transfers_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Work> held_transfers_ ABSL_GUARDED_BY(mu_);
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Work> unread_ ABSL_GUARDED_BY(mu_);
};

void LoopbackNetwork::Pull::Deliver(Work work) {
  network_->queue_->Schedule([receiver = network_->Find(caller.task),
                              work = std::move(work)]() mutable {
    if (receiver == nullptr) return std::move(work)();
    receiver->Read(std::move(work));
  });
}

LoopbackNetwork::LoopbackNetwork(ClusterSpec cluster, WorkQueue* queue,
                                 size_t part_elements)
    : cluster_(std::move(cluster)),
      queue_(queue),
      part_elements_(part_elements),
      endpoints_(cluster_.addresses.size()) {}

LoopbackNetwork::~LoopbackNetwork() = default;

std::shared_ptr<Transport> LoopbackNetwork::Connect(int task,
                                                    uint64_t incarnation) {
  Cut(task);
  const auto endpoint =
      std::make_shared<Endpoint>(this, ControlCaller{task, incarnation});
  MutexLock lock(&mu_);
  endpoints_[task] = endpoint;
  return endpoint;
}

std::vector<std::shared_ptr<LoopbackNetwork::Pull>> LoopbackNetwork::PullsFrom(
    int task) {
  std::vector<std::shared_ptr<Endpoint>> endpoints;
  {
    MutexLock lock(&mu_);
    endpoints = endpoints_;
  }
  std::vector<std::shared_ptr<Pull>> pulls;
  for (const auto& endpoint : endpoints) {
    if (endpoint == nullptr) continue;
    const auto more = endpoint->PullsFrom(task);
    pulls.insert(pulls.end(), more.begin(), more.end());
  }
  return pulls;
}

void LoopbackNetwork::Cut(int task) {
  std::vector<std::shared_ptr<Endpoint>> endpoints;
  {
    MutexLock lock(&mu_);
    endpoints = endpoints_;
  }
  if (endpoints[task] != nullptr) endpoints[task]->Shutdown();
  for (const auto& endpoint : endpoints) {
    if (endpoint != nullptr) endpoint->EndPullsFrom(task);
  }
}

void LoopbackNetwork::HoldCalls(int task) { Find(task)->HoldCalls(); }
void LoopbackNetwork::ReleaseCalls(int task) { Find(task)->ReleaseCalls(); }
void LoopbackNetwork::HoldTransfers(int task) { Find(task)->HoldTransfers(); }
void LoopbackNetwork::LetTransfersGo(int task) { Find(task)->LetTransfersGo(); }
void LoopbackNetwork::Stop(int task) { Find(task)->Stop(); }
void LoopbackNetwork::Resume(int task) { Find(task)->Resume(); }

int64_t LoopbackNetwork::num_calls() const {
  MutexLock lock(&mu_);
  return num_calls_;
}

std::shared_ptr<LoopbackNetwork::Endpoint> LoopbackNetwork::Find(
    int task) const {
  MutexLock lock(&mu_);
  return endpoints_[task];
}

}  // namespace tutti
