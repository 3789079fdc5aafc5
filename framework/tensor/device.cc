#include "tutti/device.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"

namespace tutti {

// Outfeed channel of a device, once it has one. Thread-safe.
class Device::OutfeedSlot {
 public:
  std::shared_ptr<OutfeedChannel> channel() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return channel_;
  }

  // Sets the channel if there is none. Returns the channel that stays.
  std::shared_ptr<OutfeedChannel> Give(std::shared_ptr<OutfeedChannel> channel)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (channel_ == nullptr) channel_ = std::move(channel);
    return channel_;
  }

 private:
  Mutex mu_;
  std::shared_ptr<OutfeedChannel> channel_ ABSL_GUARDED_BY(mu_);
};

Device::Device(DeviceAttributes attributes)
    : attributes_(std::move(attributes)),
      full_name_(attributes_.name.ToString()),
      outfeed_(std::make_unique<OutfeedSlot>()) {}

Device::~Device() = default;

std::shared_ptr<OutfeedChannel> Device::outfeed_channel() const {
  return outfeed_->channel();
}

std::shared_ptr<OutfeedChannel> Device::GiveOutfeedChannel(
    std::shared_ptr<OutfeedChannel> channel) {
  return outfeed_->Give(std::move(channel));
}

}  // namespace tutti
