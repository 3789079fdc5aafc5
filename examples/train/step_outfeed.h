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

// Report of a device to the host about one step.
struct StepReport {
  float loss = 0;           // On the device's part, before the step.
  float gradient_norm = 0;  // Of the average over all devices.
};

// Calls of one device come one at a time, in the order of its steps; calls of
// different devices may run at once.
using StepCallback = std::function<void(int device, const StepReport& report)>;

// Sends reports from devices to the host. Devices may send at once.
class StepOutfeed {
 public:
  // `devices` and the parts of `environment` outlive the object. Errors: as
  // OutfeedReceiver::Create and Start.
  static absl::StatusOr<std::unique_ptr<StepOutfeed>> Start(
      const tutti::Environment& environment,
      const std::vector<tutti::Device*>& devices, StepCallback callback);

  // `done` runs when the report is sent. The device waits for `done`, and
  // thereby for a slow host.
  void Send(int device, const StepReport& report,
            tutti::StatusCallback done) const;

  // Waits until all reports are delivered. Call it once, after the last Send().
  absl::Status Finish();

 private:
  explicit StepOutfeed(std::unique_ptr<tutti::OutfeedReceiver> receiver)
      : receiver_(std::move(receiver)) {}

  const std::unique_ptr<tutti::OutfeedReceiver> receiver_;
  std::vector<tutti::OutfeedSender> senders_;  // By device.
};

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_STEP_OUTFEED_H_
