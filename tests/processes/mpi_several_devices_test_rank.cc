// Tests of collectives of several devices in each process of an MPI job. Part
// of the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Three devices in each process.
class SeveralDevicesTest : public MpiCollectivesTest {
 protected:
  static constexpr int kNumDevices = 3;

  void SetUp() override { Create(kNumDevices); }

  // The calls of this process's devices.
  std::deque<Call> Calls(const std::string& implementation, DType dtype,
                         const TensorShape& shape) {
    const CollectiveRequest request =
        RequestOf(implementation, AllReduce(), dtype, shape);
    std::deque<Call> calls(kNumDevices);
    for (int device = 0; device < kNumDevices; ++device) {
      Call& call = calls[static_cast<size_t>(device)];
      call.request = request;
      call.request.group_size = kNumDevices * size();
      call.request.rank = kNumDevices * rank() + device;
      call.input = Filled(dtype, shape, call.request.rank);
    }
    return calls;
  }

  void StartAll(std::deque<Call>& calls, int64_t step = 1) {
    for (size_t device = 0; device < calls.size(); ++device) {
      Start(calls[device], step, nullptr, device);
    }
  }

  int SumOfAll(int64_t i) const {
    int sum = 0;
    for (int r = 0; r < kNumDevices * size(); ++r) sum += Value(r, i);
    return sum;
  }
};

TEST_F(SeveralDevicesTest, AreRefusedWhereAllIsLeftToMpi) {
  std::deque<Call> calls =
      Calls("MpiReduce", DType::kInt32, TensorShape::Vector(4));
  StartAll(calls);
  for (Call& call : calls) {
    EXPECT_THAT(call.Wait(),
                IsInvalidArgument("MpiReduce needs each member in a process of "
                                  "its own; these can serve: ",
                                  "LocalThenMpi"));
  }
}

TEST_F(SeveralDevicesTest, ReduceWithinProcessesAndThenBetweenThem) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const int64_t count : {0, 1, 7, 1001, 300'001}) {
      SCOPED_TRACE(absl::StrCat(Name(dtype), " ", count));
      std::deque<Call> calls =
          Calls("LocalThenMpi", dtype, TensorShape::Vector(count));
      calls[1].output = calls[1].input;  // In place.
      StartAll(calls);
      for (Call& call : calls) {
        EXPECT_THAT(call.Wait(), IsOk());
        Check(call.output, [&](int64_t i) { return SumOfAll(i); });
      }
    }
  }
}

TEST_F(SeveralDevicesTest, TheFinalOpIsThatOfTheWholeGroup) {
  std::deque<Call> calls =
      Calls("LocalThenMpi", DType::kFloat32, TensorShape::Vector(5));
  for (Call& call : calls) {
    for (int64_t i = 0; i < 5; ++i) {
      Set(call.input, i, 2 * call.request.rank + 1);
    }
    call.request.final_op = FinalOp::DivideByGroupSize();
  }
  StartAll(calls);
  for (Call& call : calls) {
    EXPECT_THAT(call.Wait(), IsOk());
    Check(call.output, [&](int64_t) { return kNumDevices * size(); });
  }
}

// All inputs are ones: only merges within a process add one to one.
TEST_F(SeveralDevicesTest, AMergeOpThatFailsBetweenProcessesEndsAllAlike) {
  if (size() == 1) return;
  CustomMergeOp op = CustomSum("ones");
  op.apply = [add = op.apply](DType dtype, const void* left, const void* right,
                              void* into, int64_t count) {
    int32_t first = 0;
    std::memcpy(&first, left, sizeof(first));
    if (first != 1) return absl::DataLossError("it is no one");
    return add(dtype, left, right, into, count);
  };
  std::deque<Call> calls =
      Calls("LocalThenMpi", DType::kInt32, TensorShape::Vector(kMany));
  for (Call& call : calls) {
    for (int64_t i = 0; i < kMany; ++i) Set(call.input, i, 1);
    call.request.merge_op = *MergeOp::Custom(op);
  }
  StartAll(calls);
  for (Call& call : calls) {
    EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kDataLoss,
                                      "op ones failed: it is no one"));
  }
}

TEST_F(SeveralDevicesTest, ManyExecutionsMeetInAnyOrder) {
  const TensorShape shape = TensorShape::Vector(100);
  std::vector<std::deque<Call>> rounds;
  for (int i = 0; i < 20; ++i) {
    rounds.push_back(Calls("LocalThenMpi", DType::kInt32, shape));
  }
  std::vector<size_t> order(rounds.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(rank()));
  for (const size_t i : order) StartAll(rounds[i]);
  for (std::deque<Call>& calls : rounds) {
    for (Call& call : calls) {
      EXPECT_THAT(call.Wait(), IsOk());
      Check(call.output, [&](int64_t i) { return SumOfAll(i); });
    }
  }
}

TEST_F(SeveralDevicesTest, WhatDependsOnItRunsOnceAllHaveLaunched) {
  const TensorShape shape = TensorShape::Vector(10);
  std::deque<Call> first = Calls("LocalThenMpi", DType::kInt32, shape);
  std::deque<Call> second = Calls("LocalThenMpi", DType::kInt32, shape);
  for (Call& call : second) {
    call.request.impl_details.dependencies = {
        {first[0].request.group_key, first[0].request.instance_key}};
  }
  StartAll(second);
  StartAll(first);
  for (std::deque<Call>* calls : {&first, &second}) {
    for (Call& call : *calls) {
      EXPECT_THAT(call.Wait(), IsOk());
      Check(call.output, [&](int64_t i) { return SumOfAll(i); });
    }
  }
}

TEST_F(SeveralDevicesTest, ACancellationOfOneEndsAllWhoHaveNotBegun) {
  const TensorShape shape = TensorShape::Vector(10);
  std::deque<Call> calls = Calls("LocalThenMpi", DType::kInt32, shape);
  // Rank 1 never calls.
  const auto cancellation = std::make_shared<Cancellation>();
  for (size_t device = 0; device < calls.size(); ++device) {
    if (calls[device].request.rank == 1) continue;
    Start(calls[device], 1, device == 0 ? cancellation : nullptr, device);
  }
  cancellation->Cancel(absl::AbortedError("not wanted any more"));
  for (Call& call : calls) {
    if (call.request.rank == 1) continue;
    EXPECT_THAT(call.Wait(), IsAborted("not wanted any more"));
  }
}

}  // namespace
}  // namespace tutti
