#ifndef TUTTI_OUTFEED_REMOTE_REMOTE_OUTFEED_PAIR_TESTING_H_
#define TUTTI_OUTFEED_REMOTE_REMOTE_OUTFEED_PAIR_TESTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "outfeed/device_stream.h"
#include "outfeed/remote/stream_link.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"

namespace tutti {

// Both ends of an outfeed between processes, for threaded tests and benchmarks.
// Every operation blocks until it is done.
class RemoteOutfeedPair {
 public:
  RemoteOutfeedPair(OutfeedConnection receiving, OutfeedConnection sending)
      : receiving_(std::move(receiving)), sending_(std::move(sending)) {}
  ~RemoteOutfeedPair() { Destroy(); }
  RemoteOutfeedPair(const RemoteOutfeedPair&) = delete;
  RemoteOutfeedPair& operator=(const RemoteOutfeedPair&) = delete;

  // Connects both ends and starts a receiver.
  absl::Status Start(OutfeedCallback callback, int64_t max_queued_bytes) {
    Connect();
    if (!receiving_status_.ok()) return receiving_status_;
    if (!sending_status_.ok()) return sending_status_;
    auto receiver = OutfeedReceiver::Create(
        {.devices = {device_.get()},
         .callback = std::move(callback),
         .max_queued_bytes = max_queued_bytes,
         .environment = receiving_.executor->environment(),
         .registry = receiver_registry_});
    if (!receiver.ok()) return receiver.status();
    receiver_ = *std::move(receiver);
    return receiver_->Start();
  }

  // Shuts the receiver down.
  absl::Status Shutdown() {
    return Await(
        [this](StatusCallback done) { receiver_->Shutdown(std::move(done)); });
  }

  // Waits for the sending end, and returns its status.
  absl::Status AwaitExportEnd() {
    export_ended_.Wait();
    return *export_status_;
  }

  void DestroyExport() { export_.reset(); }

  OutfeedSender sender() const {
    return *OutfeedSender::Create(*sending_.device, sender_registry_);
  }
  OutfeedRegistry& registry() { return *sender_registry_; }
  OutfeedReceiver& receiver() { return *receiver_; }

 private:
  void Connect() {
    BlockingCounter connected(2);
    RemoteOutfeedDevice::Connect(
        {.connection = receiving_, .registry = receiver_registry_},
        [&](auto device) {
          receiving_status_ = device.status();
          if (device.ok()) device_ = *std::move(device);
          connected.DecrementCount();
        });
    OutfeedExport::Connect({.connection = sending_,
                            .registry = sender_registry_,
                            .ended =
                                [this](absl::Status status) {
                                  export_status_ = std::move(status);
                                  export_ended_.DecrementCount();
                                }},
                           [&](auto exported) {
                             sending_status_ = exported.status();
                             if (exported.ok()) export_ = *std::move(exported);
                             connected.DecrementCount();
                           });
    connected.Wait();
  }

  void Destroy() {
    if (receiver_ != nullptr) Shutdown().IgnoreError();
    receiver_.reset();
    device_.reset();
    const bool was_connected = sending_status_.ok();
    export_.reset();
    if (was_connected) AwaitExportEnd().IgnoreError();
  }

  const OutfeedConnection receiving_;
  const OutfeedConnection sending_;
  const std::shared_ptr<OutfeedRegistry> receiver_registry_ =
      std::make_shared<OutfeedRegistry>();
  const std::shared_ptr<OutfeedRegistry> sender_registry_ =
      std::make_shared<OutfeedRegistry>();
  absl::Status receiving_status_ = absl::UnknownError("not connected");
  absl::Status sending_status_ = absl::UnknownError("not connected");
  std::optional<absl::Status> export_status_;
  BlockingCounter export_ended_{1};
  std::unique_ptr<RemoteOutfeedDevice> device_;
  std::unique_ptr<OutfeedExport> export_;
  std::unique_ptr<OutfeedReceiver> receiver_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_REMOTE_REMOTE_OUTFEED_PAIR_TESTING_H_
