// Two devices send losses and samples to the host, without waiting for it.
#include "tutti/outfeed.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "tutti/environment.h"
#include "tutti/tutti.h"

constexpr uint32_t kLoss = 1, kSample = 2;
constexpr auto kFloat = tutti::DType::kFloat32;
const auto kScalar = tutti::TensorShape();
const auto kVector = tutti::TensorShape::Vector(100);

tutti::Tensor Filled(const tutti::TensorShape& shape, float value) {
  auto tensor = *tutti::Tensor::Allocate(kFloat, shape);
  std::fill_n(reinterpret_cast<float*>(tensor.mutable_data()),
              shape.num_elements(), value);
  return tensor;
}

int main() {
  const tutti::DefaultEnvironment environment;
  const auto group = tutti::LocalGroup::Create(environment.get(), 1, 2);
  std::vector<float> losses[2], samples[2];  // By device, so without a lock.
  const auto receiver = *tutti::OutfeedReceiver::Create(
      {(*group)->devices(),
       [&](auto& device, uint32_t id, absl::Span<tutti::Tensor> arrays) {
         const int index = device.attributes().name.index;
         const std::vector<float> slow(id == kSample ? 10'000'000 : 1, 1);
         (id == kSample ? samples : losses)[index].push_back(
             *reinterpret_cast<const float*>(arrays[0].data()) * slow.back());
         return absl::OkStatus();
       },
       /*max_queued_bytes=*/1000,  // When full, devices wait.
       environment.get()});
  absl::Status status =
      receiver->registry()->Register(kLoss, {{kFloat, kScalar}});
  status.Update(receiver->registry()->Register(kSample, {{kFloat, kVector}}));
  status.Update(receiver->Start());
  for (float step = 1; step <= 5; ++step) {
    for (tutti::Device* device : (*group)->devices()) {
      auto out = *tutti::OutfeedSender::Create(*device, receiver->registry());
      status.Update(out.SendAndWait(kLoss, {Filled(kScalar, 1 / step)}));
      status.Update(out.SendAndWait(kSample, {Filled(kVector, step)}));
    }
  }
  tutti::BlockingCounter ended(1);  // Counts down when all items are delivered.
  receiver->Shutdown([&](const absl::Status& end) {
    status.Update(end);
    ended.DecrementCount();
  });
  ended.Wait();
  if (!status.ok()) return std::cerr << status << '\n', 1;
  for (int i : {0, 1}) {
    std::cout << losses[i].back() << ' ' << samples[i].size() << '\n';
  }
}
