// Runs an all-reduce by an algorithm of this folder: the program links
// direct_reduce.cc and requests the algorithm by name.

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tutti/environment.h"
#include "tutti/tutti.h"

namespace {

constexpr int kNumDevices = 4;
constexpr int kNumElements = 6;

tutti::CollectiveRequest DirectAllReduce() {
  tutti::CollectiveRequest request;
  request.group_key = 1;
  request.group_size = kNumDevices;
  request.instance_key = 1;
  request.op = tutti::AllReduce();
  request.dtype = tutti::DType::kInt32;
  request.shape = tutti::TensorShape::Vector(kNumElements);
  request.impl_details.implementation = "DirectReduce";
  return request;
}

absl::Status Run() {
  const tutti::DefaultEnvironment environment;
  const auto group = tutti::LocalGroup::Create(environment.get(),
                                               /*num_tasks=*/1, kNumDevices);
  if (!group.ok()) return group.status();
  const auto request =
      std::make_shared<const tutti::CollectiveRequest>(DirectAllReduce());

  std::vector<tutti::Tensor> outputs(kNumDevices);  // Unset: Tutti allocates.
  std::vector<tutti::CollectiveArgs> calls(kNumDevices);
  std::vector<std::vector<int>> inputs;
  for (int device = 0; device < kNumDevices; ++device) {
    inputs.emplace_back(kNumElements, 1 << device);
    auto input = tutti::Tensor::Wrap(request->dtype, request->shape,
                                     inputs[device].data());
    if (!input.ok()) return input.status();
    calls[device].request = request;
    calls[device].input = *input;
    calls[device].output = &outputs[device];
  }
  const absl::Status status =
      (*group)->Run(/*step_id=*/1, absl::MakeSpan(calls));
  if (!status.ok()) return status;

  for (int device = 0; device < kNumDevices; ++device) {
    const auto* sums = reinterpret_cast<const int*>(outputs[device].data());
    absl::PrintF("device %d: %s -> %s\n", device,
                 absl::StrJoin(inputs[device], " "),
                 absl::StrJoin(absl::MakeSpan(sums, kNumElements), " "));
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "custom_algorithm: %s\n", status.message());
  return 1;
}
