#ifndef TUTTI_OUTFEED_OUTFEED_SENDER_H_
#define TUTTI_OUTFEED_OUTFEED_SENDER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/device.h"
#include "framework/outfeed_channel.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"
#include "outfeed/outfeed_registry.h"

namespace tutti {

// The device's side of an outfeed: frames items and writes them into the
// device's channel. A value; thread-safe, and the items of one thread arrive in
// its order.
//
// No byte is copied: the callback gets the same memory. From the call on it
// belongs to the stream, and nobody may write it while a tensor of the item is
// alive anywhere; the deleter of Tensor::Wrap() tells when that is over. Who
// wants to go on with the memory sends a copy.
class OutfeedSender {
 public:
  // `registry` is that of the receiver. Errors: UNIMPLEMENTED for a device
  // without an outfeed.
  static absl::StatusOr<OutfeedSender> Create(
      Device& device, std::shared_ptr<const OutfeedRegistry> registry);

  // `done`, which may be null, runs when the item is on its way, which is at
  // once or when there is room: a device that waits for it is held back as the
  // callbacks are slow. It says nothing about the callback.
  //
  // Errors, with which nothing is sent: NOT_FOUND for an id that is not
  // registered; INVALID_ARGUMENT for arrays that are not as registered; those
  // of OutfeedChannel::TransferToOutfeed().
  void Send(uint32_t consumer_id, absl::Span<const Tensor> arrays,
            StatusCallback done) const;

  // Blocks this thread until `done` would run. Not for threads of the work
  // queue, which may be what makes room, nor from a `done`.
  absl::Status SendAndWait(uint32_t consumer_id,
                           absl::Span<const Tensor> arrays) const;

  // Adds an item to `batch`, which OutfeedChannel::TransferToOutfeed() takes:
  // many items at once cost less than one by one. Errors: as Send().
  absl::Status AddItem(uint32_t consumer_id, absl::Span<const Tensor> arrays,
                       std::vector<Tensor>& batch) const;

  OutfeedChannel& channel() const { return *channel_; }

 private:
  OutfeedSender(std::shared_ptr<OutfeedChannel> channel,
                std::shared_ptr<const OutfeedRegistry> registry)
      : channel_(std::move(channel)), registry_(std::move(registry)) {}

  absl::StatusOr<const OutfeedConsumer*> Check(
      uint32_t consumer_id, absl::Span<const Tensor> arrays) const;

  std::shared_ptr<OutfeedChannel> channel_;
  std::shared_ptr<const OutfeedRegistry> registry_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_SENDER_H_
