#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "outfeed/remote/remote_channel.h"
#include "outfeed/remote/stream_link.h"
#include "tutti/outfeed.h"

namespace tutti {

void RemoteOutfeedDevice::Connect(Options options, ConnectCallback done) {
  if (options.registry == nullptr) {
    return std::move(done)(absl::InvalidArgumentError(
        "the receiving end of an outfeed needs a registry"));
  }
  StreamLink::Connect(
      StreamLink::kReceiver, std::move(options.connection),
      [registry = std::move(options.registry), done = std::move(done)](
          absl::StatusOr<std::shared_ptr<StreamLink>> link) mutable {
        if (!link.ok()) return std::move(done)(link.status());
        std::move(done)(std::unique_ptr<RemoteOutfeedDevice>(
            new RemoteOutfeedDevice(*std::move(link), std::move(registry))));
      });
}

RemoteOutfeedDevice::RemoteOutfeedDevice(
    std::shared_ptr<StreamLink> link, std::shared_ptr<OutfeedRegistry> registry)
    : Device(link->device(StreamLink::kSender)), link_(std::move(link)) {
  GiveOutfeedChannel(
      RemoteChannel::Create(full_name(), link_, std::move(registry)));
}

RemoteOutfeedDevice::~RemoteOutfeedDevice() {
  link_->End(absl::CancelledError(
      absl::StrCat("outfeed of ", full_name(), ": its receiving end, at ",
                   link_->device(StreamLink::kReceiver).name.ToString(),
                   ", was destroyed")));
}

}  // namespace tutti
