#ifndef TUTTI_OUTFEED_ALL_REDUCE_OBSERVER_H_
#define TUTTI_OUTFEED_ALL_REDUCE_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective_observer.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/outfeed_channel.h"
#include "outfeed/outfeed_registry.h"
#include "outfeed/outfeed_sender.h"

namespace tutti {

// Streams what chosen all-reduces yield to the consumers of an outfeed: give it
// to CollectiveExecutorMgr::SetObserver(). Each device sends its own result, as
// an item of two arrays: int64[2], the step and which execution of the instance
// in this step, and a copy of the output, taken before `done` runs; of
// segments, one tensor of the request's shape.
//
// A collective is delayed by the copies alone, each of which the member's own
// `done` waits for, and those of members whose parts end on the same thread, as
// they do within a process: a device that has `max_waiting_items` waiting for
// room in its outfeed drops what comes then, and counts it. Nor does a
// collective fail: what cannot be sent is counted, and the first reason kept.
//
// The consumers are registered when their first result is there, with its dtype
// and shape. Results of a device arrive in the order in which they ended,
// unless they did so at the same time.
//
// Thread-safe. For the life of one receiver: what is sent to a later one on the
// same devices would be unknown to it, so set another observer then, for steps
// that are new.
class AllReduceObserver : public CollectiveObserver {
 public:
  struct Selection {
    GroupKey group_key = 0;
    InstanceKey instance_key = 0;
    uint32_t consumer_id = 0;
  };
  struct Options {
    // Whose results are sent. They outlive this.
    std::vector<Device*> devices;

    std::shared_ptr<OutfeedRegistry> registry;  // That of the receiver.
    std::vector<Selection> selections;

    // Of one device; results that end at once may be a few more. Each holds as
    // many bytes as the output has.
    int max_waiting_items = 16;
  };

  // Of one device: how many results were sent, were dropped for lack of room,
  // and could not be sent, for which reason at first.
  struct Tallies {
    uint64_t num_sent = 0;
    uint64_t num_dropped = 0;
    uint64_t num_failed = 0;
    absl::Status first_error;
  };

  // Errors: INVALID_ARGUMENT for a null device, an instance that is selected
  // twice, the reserved id, no registry, and a limit below 1; UNIMPLEMENTED for
  // a device without an outfeed or whose memory the host cannot copy.
  static absl::StatusOr<std::shared_ptr<AllReduceObserver>> Create(
      const Options& options);

  // Results of other devices and instances, and of what is no all-reduce, are
  // passed over.
  void OnFinished(const Finished& finished) override;

  // REQUIRES: one of the options' devices.
  Tallies tallies(const Device& device) const;

 private:
  class Counts;
  struct Source {
    std::shared_ptr<OutfeedChannel> channel;
    OutfeedSender sender;
    std::shared_ptr<Counts> counts;  // Of what waits in the channel, too.
  };
  using InstanceId = std::pair<GroupKey, InstanceKey>;

  explicit AllReduceObserver(const Options& options);

  absl::Status AddDevice(Device* device);
  absl::Status AddSelection(const Selection& selection);
  absl::Status Send(const Source& source, uint32_t consumer_id,
                    const Finished& finished) const;

  const std::shared_ptr<OutfeedRegistry> registry_;
  const size_t max_waiting_items_;

  // Fixed when Create() returns.
  absl::flat_hash_map<const Device*, Source> sources_;
  absl::flat_hash_map<InstanceId, uint32_t> consumers_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_ALL_REDUCE_OBSERVER_H_
