// The transport of docs/add_a_transport.md, which shows this file.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "remote/transport.h"
#include "remote/transport_registry.h"

namespace tutti {
namespace {

// Request, as the sending side sees it.
class Pull final : public ServedRequest {
 public:
  Pull(const ControlCaller& caller, const BufKey& key, const RecvRequest& recv)
      : ServedRequest(caller, key, recv), to_(recv) {}

 private:
  void OnAnswer(absl::Status status, const Delivery& delivery) override {
    if (status.ok()) {
      status = to_.receiver->OnPart(to_.id, /*offset=*/0, delivery.bytes);
      delivery.Release(status);
    }
    to_.receiver->OnDelivery(to_.id, std::move(status), {});
  }

  const RecvRequest to_;
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
    other->transfers_->Serve(std::make_shared<Pull>(self_, key, recv));
  }
  void Cancel(const Choice&, const absl::Status&) override {}
  std::vector<BufKey> UnderWay(const Choice&) override { return {}; }

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
