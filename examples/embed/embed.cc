// Tutti in a program that has its own buffers and threads: an all-reduce.
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <iostream>

#include "tutti/environment.h"
#include "tutti/tutti.h"

struct MyPool : tutti::WorkQueue {
  ~MyPool() override { pool.join(); }
  void Schedule(tutti::Work job) override { asio::post(pool, std::move(job)); }
  int num_workers() const override { return 2; }
  asio::thread_pool pool{2};
};

absl::Status AddUp(std::vector<std::vector<float>> buffers) {
  const int num_devices = static_cast<int>(buffers.size());
  MyPool pool;
  const tutti::DefaultEnvironment defaults;
  const auto group = tutti::LocalGroup::Create(
      {&pool, defaults.get().clock, defaults.get().random}, /*num_tasks=*/1,
      num_devices);
  if (!group.ok()) return group.status();
  const auto step = (*group)->manager().FindOrCreate(/*step_id=*/1);

  const auto request = std::make_shared<tutti::CollectiveRequest>();
  request->group_size = num_devices;
  request->op = tutti::AllReduce();
  request->shape = tutti::TensorShape::Vector(buffers[0].size());
  std::vector<tutti::Tensor> tensors;
  for (auto& buffer : buffers) {
    const auto tensor =
        tutti::Tensor::Wrap(request->dtype, request->shape, buffer.data());
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*tensor);
  }

  std::vector<absl::Status> statuses(num_devices);
  tutti::BlockingCounter pending(num_devices);
  for (int i = 0; i < num_devices; ++i) {
    step->ExecuteAsync(
        {(*group)->devices()[i], request, tensors[i], &tensors[i]},
        [&, i](absl::Status status) {
          statuses[i] = std::move(status);
          pending.DecrementCount();
        });
  }
  pending.Wait();
  for (int i = 0; i < num_devices; ++i) {
    if (!statuses[i].ok()) return statuses[i];
    std::cout << buffers[i][0] << ' ' << buffers[i][1] << '\n';
  }
  return absl::OkStatus();
}

int main() {
  const auto status = AddUp({{1, 2}, {10, 20}, {100, 200}, {1000, 2000}});
  if (!status.ok()) std::cerr << "embed: " << status << '\n';
  return status.ok() ? 0 : 1;
}
