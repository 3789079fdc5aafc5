#ifndef TUTTI_OUTFEED_OUTFEED_RECEIVER_H_
#define TUTTI_OUTFEED_OUTFEED_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device.h"
#include "framework/environment.h"
#include "framework/status_callback.h"
#include "outfeed/outfeed_callback.h"
#include "outfeed/outfeed_registry.h"
#include "outfeed/outfeed_statistics.h"

namespace tutti {

// The host's side of the outfeeds of some devices: calls back with every item
// that an OutfeedSender sends, or that is written into a device's channel.
//
// The items of a device come in the order in which they were sent, one callback
// at a time; those of different devices at once. Callbacks run as works of the
// environment's queue, with no lock held, and may take as long as they like: up
// to a limit on their bytes, which all devices share, items queue meanwhile;
// then whoever sends waits for room. An item that does not fit makes those
// behind it wait too, on whatever device, so that it is not overtaken for ever.
// One above the limit is received when nothing else is queued.
//
// A protocol error (no header, an id that is not registered, an array that is
// not as registered, a shutdown in the middle of an item) ends the stream of
// its device after the items before it; a callback that fails or throws, at
// once, without those behind it. Senders then get the same status. Other
// devices go on.
//
// Thread-safe; starts no thread and never blocks. At one time a device has one
// receiver.
class OutfeedReceiver {
 public:
  struct Options {
    // Each once. They outlive the end, as do what the callback uses and the
    // environment: see Shutdown().
    std::vector<Device*> devices;
    OutfeedCallback callback;
    int64_t max_queued_bytes = int64_t{256} << 20;  // Of payload.
    Environment environment;

    // Null: one of its own. RemoteOutfeedDevices are given the same one.
    std::shared_ptr<OutfeedRegistry> registry;
  };

  // Errors: INVALID_ARGUMENT for no device, a null one or one twice, for no
  // callback, for a limit below 1 or above OutfeedChannel::kMaxTransferBytes;
  // UNIMPLEMENTED for a device without an outfeed.
  static absl::StatusOr<std::unique_ptr<OutfeedReceiver>> Create(
      Options options);

  // As Shutdown() without `done`: items that were sent are still delivered
  // after it.
  ~OutfeedReceiver();
  OutfeedReceiver(const OutfeedReceiver&) = delete;
  OutfeedReceiver& operator=(const OutfeedReceiver&) = delete;

  // What may be sent. Ids can be registered at any time before they are sent.
  const std::shared_ptr<OutfeedRegistry>& registry() const { return registry_; }

  // Listens to all devices; sends before it fail. Once. Errors:
  // FAILED_PRECONDITION after another Start() or a Shutdown(), or if a device
  // has a receiver that has not ended: then this one ends on all devices.
  absl::Status Start();

  // Ends the streams of all devices: sends after it fail with CANCELLED; those
  // before, also those that still wait for room, are delivered. At any time,
  // any number of times, from callbacks too.
  //
  // `done`, which may be null, runs when the last callback has ended, inside
  // this call if it has: with OK or the error of the first stream that failed.
  // Then another receiver can be started on the devices.
  void Shutdown(StatusCallback done);

  // Statistics of `options.devices[device_index]`. REQUIRES: such an index.
  OutfeedStatistics statistics(size_t device_index) const;

  // Payload of all devices.
  int64_t queued_bytes() const;

 private:
  class Streams;

  OutfeedReceiver(std::shared_ptr<OutfeedRegistry> registry,
                  std::unique_ptr<Streams> streams);

  const std::shared_ptr<OutfeedRegistry> registry_;
  const std::unique_ptr<Streams> streams_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_RECEIVER_H_
