// The transport of docs/add_a_transport.md, which shows this file.
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "remote/transport.h"
#include "remote/transport_registry.h"

namespace tutti {
namespace {

// Sending side's receiver of one request. Deletes itself.
class Pull final : public Receiver {
 public:
  explicit Pull(const RecvRequest& recv) : ask_(recv) {}

  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery delivery) override {
    if (status.ok()) {
      status = ask_.receiver->OnPart(ask_.id, /*offset=*/0, delivery.bytes);
      delivery.Release(status);
    }
    ask_.receiver->OnDelivery(ask_.id, std::move(status), {});
    delete this;
  }

 private:
  const RecvRequest ask_;
};

class DirectTransport final : public Transport,
                              public ControlChannel,
                              public TransferChannel {
 public:
  DirectTransport(const ClusterSpec& cluster, uint64_t incarnation)
      : cluster_(cluster), self_{cluster.this_task, incarnation} {}
  ~DirectTransport() override { Shutdown(); }

  ControlChannel& control() override { return *this; }
  TransferChannel& transfers() override { return *this; }

  absl::Status Start(ControlService* control,
                     TransferService* transfers) override {
    control_ = control;
    transfers_ = transfers;
    At(self_.task) = this;
    return absl::OkStatus();
  }
  void Drop(const ControlCaller&, const absl::Status&) override {}
  void Shutdown() override {
    if (At(self_.task) == this) At(self_.task) = nullptr;
  }

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    DirectTransport* const other = At(task);
    if (other == nullptr) return std::move(done)(Gone(task));
    other->control_->Handle(self_, request, options.cancellation,
                            std::move(done));
  }

  void Request(int task, const BufKey& key, const RecvRequest& recv) override {
    DirectTransport* const other = At(task);
    if (other == nullptr) {
      return recv.receiver->OnDelivery(recv.id, Gone(task), {});
    }
    RecvRequest request = recv;
    request.into = {};
    request.receiver = new Pull(recv);
    other->transfers_->Serve(self_, key, request);
  }
  void Cancel(int /*task*/, const BufKey& /*key*/, const Receiver* /*receiver*/,
              absl::Status /*reason*/) override {}

 private:
  // Transport of a task; null if the task has not started or has ended.
  DirectTransport*& At(int task) const {
    static auto* const tasks = new std::map<std::string, DirectTransport*>;
    return (*tasks)[cluster_.addresses[task]];
  }

  absl::Status Gone(int task) const {
    return absl::UnavailableError(
        absl::StrCat(cluster_.Label(task), " is not there"));
  }

  const ClusterSpec cluster_;
  const ControlCaller self_;
  ControlService* control_ = nullptr;
  TransferService* transfers_ = nullptr;
};

absl::StatusOr<TaskNetwork> Connect(const NetworkSettings& settings) {
  return TaskNetwork{
      settings.cluster, [cluster = settings.cluster](uint64_t incarnation) {
        return std::make_shared<DirectTransport>(cluster, incarnation);
      }};
}

REGISTER_TRANSPORT(Direct, Connect);

}  // namespace
}  // namespace tutti
