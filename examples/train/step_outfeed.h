#ifndef TUTTI_EXAMPLES_TRAIN_STEP_OUTFEED_H_
#define TUTTI_EXAMPLES_TRAIN_STEP_OUTFEED_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/outfeed.h"
#include "tutti/tutti.h"

namespace train {

// What a device tells the host of each step.
struct StepReport {
  float loss = 0;           // On the device's part of the batch, before it.
  float gradient_norm = 0;  // Of the average over all devices.
};

// One device at a time calls in the order of its steps; others at once.
using StepCallback = std::function<void(int device, const StepReport& report)>;

// The way of reports from devices to the host. Devices may send at once.
class StepOutfeed {
 public:
  // `devices` and `environment`'s parts outlive this. Errors: as
  // OutfeedReceiver::Create and Start.
  static absl::StatusOr<std::unique_ptr<StepOutfeed>> Start(
      const tutti::Environment& environment,
      const std::vector<tutti::Device*>& devices, StepCallback callback);

  // `done` runs when the report is on its way: the device waits for that, and
  // so for the host if it is slow.
  void Send(int device, const StepReport& report,
            tutti::StatusCallback done) const;

  // Waits until all has been delivered. Once, after the last Send().
  absl::Status Finish();

 private:
  explicit StepOutfeed(std::unique_ptr<tutti::OutfeedReceiver> receiver)
      : receiver_(std::move(receiver)) {}

  const std::unique_ptr<tutti::OutfeedReceiver> receiver_;
  std::vector<tutti::OutfeedSender> senders_;  // By device.
};

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_STEP_OUTFEED_H_
