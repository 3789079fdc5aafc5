#include <iostream>

#include "framework/default_environment.h"
#include "tutti.h"

int main() {
  const tutti::DefaultEnvironment environment;
  const auto group = tutti::LocalGroup::Create(
      environment.get(), /*num_tasks=*/1, /*devices_per_task=*/2);
  if (!group.ok()) return std::cerr << group.status() << '\n', 1;

  const auto request = std::make_shared<tutti::CollectiveRequest>();
  request->group_size = 2;
  request->op = tutti::AllReduce();
  request->shape = tutti::TensorShape::Vector(3);

  float data[2][3] = {{1, 2, 3}, {10, 20, 30}};
  tutti::Tensor sums[2];
  tutti::CollectiveArgs calls[2];
  for (int i : {0, 1}) {
    calls[i].request = request;
    calls[i].input =
        *tutti::Tensor::Wrap(tutti::DType::kFloat32, request->shape, data[i]);
    calls[i].output = &sums[i];
  }
  const absl::Status status = (*group)->Run(/*step_id=*/1, calls);
  if (!status.ok()) return std::cerr << status << '\n', 1;
  const auto* sum = reinterpret_cast<const float*>(sums[1].data());
  std::cout << sum[0] << ' ' << sum[1] << ' ' << sum[2] << '\n';
}
