#include "tests/named_tensor_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

ClusterSpec ClusterOf(int num_ranks, int this_task) {
  ClusterSpec cluster;
  for (int task = 0; task < num_ranks; ++task) {
    cluster.addresses.push_back(absl::StrCat("host", task, ":1"));
  }
  cluster.this_task = this_task;
  return cluster;
}

}  // namespace

NamedTensorJob::NamedTensorJob(int num_ranks, const Environment& environment,
                               CoordinatorSettings settings,
                               size_t part_elements)
    : environment_(environment),
      network_(ClusterOf(num_ranks, 0), environment.queue, part_elements) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto runtime = ClusterRuntime::Create(
        {.cluster = ClusterOf(num_ranks, rank),
         .environment = environment,
         .make_transport = [this, rank](uint64_t incarnation)
             -> absl::StatusOr<std::shared_ptr<Transport>> {
           return network_.Connect(rank, incarnation);
         },
         .coordinator = settings});
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtimes_.push_back(*std::move(runtime));
  }
}

void NamedTensorJob::Join() {
  for (const auto& runtime : runtimes_) {
    runtime->Join(
        environment_.clock->Now() + absl::Seconds(60), nullptr,
        [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  }
}

StatusCallback NamedCall::Set() {
  return [this](absl::Status ended) {
    ++num_answers;
    status = std::move(ended);
  };
}

std::vector<float> NamedCall::Values() const {
  std::vector<float> values(static_cast<size_t>(output.num_elements()));
  if (!values.empty()) {
    std::memcpy(values.data(), output.data(), output.size_bytes());
  }
  return values;
}

Tensor Filled(DType dtype, const TensorShape& shape, float value) {
  Tensor tensor = *Tensor::Allocate(dtype, shape);
  if (dtype == DType::kFloat32) {
    std::fill_n(reinterpret_cast<float*>(tensor.mutable_data()),
                tensor.num_elements(), value);
  } else {
    std::fill_n(tensor.mutable_data(), tensor.size_bytes(), std::byte{0});
  }
  return tensor;
}

NamedCallPtr CallAllReduce(Coordinator& at, const std::string& name,
                           const Tensor& input, MergeOp merge_op) {
  const auto call = std::make_shared<NamedCall>();
  at.AllReduce({.name = name,
                .input = input,
                .output = &call->output,
                .merge_op = std::move(merge_op)},
               [call, set = call->Set()](absl::Status status) mutable {
                 std::move(set)(std::move(status));
               });
  return call;
}

NamedCallPtr CallAllGather(Coordinator& at, const std::string& name,
                           const Tensor& input) {
  const auto call = std::make_shared<NamedCall>();
  at.AllGather({.name = name, .input = input, .output = &call->output},
               [call, set = call->Set()](absl::Status status) mutable {
                 std::move(set)(std::move(status));
               });
  return call;
}

}  // namespace tutti
