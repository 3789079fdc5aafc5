#include "gpu/nccl/nccl_reduce.h"

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/reduction_reference.h"
#include "framework/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/nccl/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::Combine;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Values;

bool HasNccl(ReductionKind kind) { return kind <= ReductionKind::kMax; }

// What the double and our kernel make of it: a sum by rank, which is rounded,
// and then divided.
Bytes Expected(const ReductionPair& pair, const std::vector<Bytes>& inputs,
               bool is_average) {
  std::vector<const uint8_t*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Bytes result = inputs[0];
  const size_t num_elements = result.size() / SizeOf(pair.dtype);
  if (inputs.size() == 1) return result;
  ReferenceReduceMany(pair.kind, pair.dtype, pointers, result.data(),
                      num_elements, 1);
  if (is_average) {
    ReferenceDivideBy(pair.dtype, result.data(), num_elements,
                      static_cast<int64_t>(inputs.size()));
  }
  return result;
}

struct Case {
  ReductionPair pair = {ReductionKind::kSum, DType::kFloat32};
  CollectiveOp op = AllReduce{};
  int64_t num_elements = 0;
  bool is_average = false;
  bool in_place = false;
};

Bytes Part(const Bytes& all, int rank, size_t num_parts) {
  const auto size = static_cast<ptrdiff_t>(all.size() / num_parts);
  return Bytes(all.begin() + rank * size, all.begin() + (rank + 1) * size);
}

// Runs it as instance `key`, while the inputs are still being written.
void RunCase(FakeNcclTasks& tasks, const Case& test, int64_t key) {
  const auto [kind, dtype] = test.pair;
  CollectiveRequest request = tasks.Request(test.op, dtype, test.num_elements);
  request.instance_key = key;
  request.merge_op = kind;
  if (test.is_average) request.final_op = FinalOp::DivideByGroupSize();
  const auto* const to_root = std::get_if<ReduceToRoot>(&test.op);
  const bool scatters = std::holds_alternative<ReduceScatter>(test.op);
  std::vector<Bytes> inputs;
  std::vector<Tensor> outputs(tasks.size());
  for (int rank = 0; rank < tasks.size(); ++rank) {
    inputs.push_back(
        RandomElements(dtype, test.num_elements, 100 * key + rank));
    const Tensor input = tasks.Allocate(rank, dtype, request.shape);
    if (test.in_place) outputs[rank] = input;
    tasks.Write(rank, input, inputs[rank]);
    const bool has_output = to_root == nullptr || to_root->root == rank;
    tasks.Call(rank, request, input, has_output ? &outputs[rank] : nullptr);
  }
  tasks.RunAll();
  Bytes expected = Expected(test.pair, inputs, test.is_average);
  for (int rank = 0; rank < tasks.size(); ++rank) {
    ASSERT_THAT(tasks.ended()[rank], Optional(IsOk()));
    if (to_root != nullptr && to_root->root != rank) continue;
    ASSERT_EQ(tasks.Read(rank, outputs[rank]),
              scatters ? Part(expected, rank, inputs.size()) : expected)
        << rank;
  }
}

class LayoutsTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  FakeNcclTasks tasks_{{.num_tasks = std::get<0>(GetParam()),
                        .gpus_per_task = std::get<1>(GetParam())}};
};
INSTANTIATE_TEST_SUITE_P(TasksAndGpus, LayoutsTest,
                         Combine(Values(1, 2, 3), Values(1, 2, 3)));

TEST_P(LayoutsTest, EveryMemberGetsTheReduction) {
  int64_t key = 0;
  for (const ReductionPair& pair : SupportedPairs()) {
    if (!HasNccl(pair.kind)) continue;
    SCOPED_TRACE(Describe(pair));
    for (const bool is_average : {false, true}) {
      const int64_t num_elements = 1 + key % 38;
      ++key;
      ASSERT_NO_FATAL_FAILURE(RunCase(tasks_,
                                      {.pair = pair,
                                       .num_elements = num_elements,
                                       .is_average = is_average,
                                       .in_place = key % 3 == 0},
                                      key));
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(LayoutsTest, EveryRootGetsTheReduction) {
  int64_t key = 0;
  for (int root = 0; root < tasks_.size(); ++root) {
    for (const bool is_average : {false, true}) {
      ++key;
      ASSERT_NO_FATAL_FAILURE(RunCase(tasks_,
                                      {.op = ReduceToRoot{.root = root},
                                       .num_elements = 7,
                                       .is_average = is_average,
                                       .in_place = key % 3 == 0},
                                      key));
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(LayoutsTest, NothingIsReducedToNothing) {
  ASSERT_NO_FATAL_FAILURE(RunCase(tasks_, {}, 1));
  EXPECT_EQ(tasks_.network().counts().launches, 0);
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

}  // namespace
}  // namespace tutti
