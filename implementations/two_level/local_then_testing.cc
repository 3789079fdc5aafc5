#include "implementations/two_level/local_then_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(ThenRing, LocalThenFactory<"RingReduce", kChunkBytes>());
REGISTER_COLLECTIVE(
    ThenHalving,
    LocalThenFactory<"RecursiveHalvingDoublingReduce", kChunkBytes>());
REGISTER_COLLECTIVE(ThenTrees,
                    LocalThenFactory<"DoubleTreeReduce", kChunkBytes>());

}  // namespace

Processes::Processes(const std::vector<int>& num_devices, uint64_t seed,
                     bool in_turn)
    : environment_(seed) {
  const int most = *std::max_element(num_devices.begin(), num_devices.end());
  for (int device = 0; in_turn && device < most; ++device) {
    for (size_t task = 0; task < num_devices.size(); ++task) {
      if (device < num_devices[task]) {
        task_of_.push_back(static_cast<int>(task));
      }
    }
  }
  int number = 0;
  for (const int num : num_devices) {
    std::vector<std::unique_ptr<Device>> devices;
    for (int i = 0; i < num; ++i) {
      DeviceAttributes attributes;
      attributes.name = {
          .job = "worker", .task = number, .type = "CPU", .index = i};
      attributes.incarnation = 100 + number;
      devices.push_back(std::make_unique<CpuDevice>(std::move(attributes)));
    }
    Task& task = tasks_.emplace_back();
    task.devices = *DeviceManager::Create(std::move(devices));
    task.executors =
        *together_.NewExecutors(environment_.get(), task.devices.get());
    if (!in_turn) {
      task_of_.insert(task_of_.end(), static_cast<size_t>(num), number);
    }
    ++number;
  }
}

CollectiveRequest Processes::Request(std::string name, DType dtype,
                                     int64_t num_elements) const {
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = size();
  request.instance_key = 1;
  request.op = AllReduce{};
  request.dtype = dtype;
  request.shape = TensorShape::Vector(num_elements);
  request.impl_details.implementation = std::move(name);
  return request;
}

CollectiveArgs Processes::ArgsOf(int rank, CollectiveRequest request,
                                 Call& call, bool in_place) {
  request.rank = rank;
  const Tensor input =
      *Tensor::Wrap(request.dtype, request.shape, call.input.data());
  call.output = in_place ? input : Tensor();
  Task& task = tasks_[static_cast<size_t>(task_of_[rank])];
  const auto device = static_cast<size_t>(
      std::count(task_of_.begin(), task_of_.begin() + rank, task_of_[rank]));
  return {
      .device = task.devices->devices()[device],
      .request = std::make_shared<const CollectiveRequest>(std::move(request)),
      .input = input,
      .output = &call.output};
}

CollectiveExecutor& Processes::executor(int rank) {
  return *tasks_[static_cast<size_t>(task_of_[rank])].executors->FindOrCreate(
      1);
}

void Processes::Start(int rank, const CollectiveRequest& request, Call& call,
                      bool in_place, absl::Time deadline) {
  CollectiveArgs args = ArgsOf(rank, request, call, in_place);
  args.deadline = deadline;
  call.status.reset();
  executor(rank).ExecuteAsync(std::move(args), [&call](absl::Status status) {
    EXPECT_FALSE(call.status.has_value());
    call.status = std::move(status);
  });
}

void Processes::RunAll(const CollectiveRequest& request,
                       std::vector<Call>& calls, bool in_place) {
  for (int rank = 0; rank < size(); ++rank) {
    Start(rank, request, calls[static_cast<size_t>(rank)], in_place);
  }
  environment_.RunAll();
}

std::vector<Processes::Call> RandomCalls(const Processes& processes,
                                         DType dtype, int64_t num_elements,
                                         uint64_t seed) {
  std::vector<Processes::Call> calls(static_cast<size_t>(processes.size()));
  for (Processes::Call& call : calls) {
    call.input =
        RandomElements(dtype, static_cast<size_t>(num_elements), seed++);
    call.input.reserve(1);  // Gives it an address.
  }
  return calls;
}

Bytes Expected(const CollectiveRequest& request,
               const std::vector<int>& task_of,
               const std::vector<Processes::Call>& calls) {
  const int64_t num_elements = request.shape.num_elements();
  const auto merge = [&](Bytes& into, const Bytes& other) {
    EXPECT_THAT(request.merge_op.Apply(request.dtype, into.data(), other.data(),
                                       into.data(), num_elements),
                IsOk());
  };
  std::vector<Bytes> sums;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const auto task = static_cast<size_t>(task_of[rank]);
    if (task == sums.size()) {
      sums.push_back(calls[rank].input);
    } else {
      merge(sums[task], calls[rank].input);
    }
  }
  for (size_t task = 1; task < sums.size(); ++task) merge(sums[0], sums[task]);
  EXPECT_THAT(
      request.final_op.Apply(request.dtype, sums[0].data(), num_elements,
                             static_cast<int>(calls.size())),
      IsOk());
  return sums[0];
}

void ExpectAll(const std::vector<Processes::Call>& calls,
               const Bytes& expected) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    ASSERT_THAT(calls[rank].status, testing::Optional(IsOk())) << rank;
    ASSERT_TRUE(calls[rank].result() == expected) << rank;
  }
}

MergeOp CustomSum(bool commutative, int* num_calls, int num_good) {
  return *MergeOp::Custom(
      {.name = "mine",
       .commutative = commutative,
       .apply = [num_calls, num_good](DType dtype, const void* left,
                                      const void* right, void* into,
                                      int64_t num_elements) {
         if (++*num_calls > num_good) return absl::DataLossError("no merge");
         return MergeOp().Apply(dtype, left, right, into, num_elements);
       }});
}

}  // namespace tutti
