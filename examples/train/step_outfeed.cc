#include "examples/train/step_outfeed.h"

#include <cstring>
#include <utility>

#include "absl/types/span.h"

namespace train {
namespace {

constexpr uint32_t kReports = 1;

absl::StatusOr<tutti::Tensor> TensorOf(const StepReport& report) {
  const float values[] = {report.loss, report.gradient_norm};
  auto tensor = tutti::Tensor::Allocate(tutti::DType::kFloat32,
                                        tutti::TensorShape::Vector(2));
  if (tensor.ok()) std::memcpy(tensor->mutable_data(), values, sizeof(values));
  return tensor;
}

StepReport ReportIn(const tutti::Tensor& tensor) {
  const auto* values = reinterpret_cast<const float*>(tensor.data());
  return {.loss = values[0], .gradient_norm = values[1]};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepOutfeed>> StepOutfeed::Start(
    const tutti::Environment& environment,
    const std::vector<tutti::Device*>& devices, StepCallback callback) {
  auto receiver = tutti::OutfeedReceiver::Create(
      {.devices = devices,
       .callback =
           [callback = std::move(callback)](tutti::Device& device, uint32_t,
                                            absl::Span<tutti::Tensor> arrays) {
             callback(device.attributes().name.index, ReportIn(arrays[0]));
             return absl::OkStatus();
           },
       .environment = environment});
  if (!receiver.ok()) return receiver.status();
  const auto& registry = (*receiver)->registry();
  absl::Status status = registry->Register(
      kReports, {{tutti::DType::kFloat32, tutti::TensorShape::Vector(2)}});
  status.Update((*receiver)->Start());
  if (!status.ok()) return status;
  std::unique_ptr<StepOutfeed> outfeed(new StepOutfeed(*std::move(receiver)));
  for (tutti::Device* device : devices) {
    auto sender =
        tutti::OutfeedSender::Create(*device, outfeed->receiver_->registry());
    if (!sender.ok()) return sender.status();
    outfeed->senders_.push_back(*std::move(sender));
  }
  return outfeed;
}

void StepOutfeed::Send(int device, const StepReport& report,
                       tutti::StatusCallback done) const {
  const auto tensor = TensorOf(report);
  if (!tensor.ok()) return std::move(done)(tensor.status());
  senders_[device].Send(kReports, {*tensor}, std::move(done));
}

absl::Status StepOutfeed::Finish() {
  return tutti::Await([&](tutti::StatusCallback done) {
    receiver_->Shutdown(std::move(done));
  });
}

}  // namespace train
