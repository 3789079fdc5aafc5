#include <iostream>

#include "tutti/environment.h"
#include "tutti/tutti.h"

int main() {
  const tutti::DefaultEnvironment environment;
  const auto group = tutti::LocalGroup::Create(
      environment.get(), /*num_tasks=*/1, /*devices_per_task=*/2);
  if (!group.ok()) return std::cerr << group.status() << '\n', 1;

  float data[2][3] = {{1, 2, 3}, {10, 20, 30}};
  tutti::Tensor inputs[2];
  for (int i : {0, 1}) {
    inputs[i] = *tutti::Tensor::Wrap(tutti::DType::kFloat32,
                                     tutti::TensorShape::Vector(3), data[i]);
  }
  const auto sums =
      (*group)->Run(/*step_id=*/1, {.op = tutti::AllReduce()}, inputs);
  if (!sums.ok()) return std::cerr << sums.status() << '\n', 1;
  const auto* sum = reinterpret_cast<const float*>((*sums)[1].data());
  std::cout << sum[0] << ' ' << sum[1] << ' ' << sum[2] << '\n';
}
