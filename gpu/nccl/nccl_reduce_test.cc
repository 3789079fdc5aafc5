#include "gpu/nccl/nccl_reduce.h"

#include <climits>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_reference.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_checks.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_reduce_test {

using ::testing::Combine;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::StartsWith;
using ::testing::Values;

bool HasNccl(const ReductionPair& pair) {
  return WhyNotWithNccl(pair.dtype, pair.kind, FinalOp()).empty();
}

// Result of the double and our kernel: a sum by rank, rounded, then divided.
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

// Runs the case as instance `key` while the inputs are still being written.
void RunCase(FakeNcclTasks& tasks, const Case& test, int64_t key) {
  const auto [kind, dtype] = test.pair;
  CollectiveRequest request = tasks.Request(test.op, dtype, test.num_elements);
  request.instance_key = key;
  request.merge_op = kind;
  if (test.is_average) request.final_op = FinalOp::DivideByGroupSize();
  const auto* const to_root = std::get_if<ReduceToRoot>(&test.op);
  const bool scatters = std::holds_alternative<ReduceScatter>(test.op);
  request.impl_details.implementation =
      scatters ? "NcclReduceScatter" : "NcclReduce";
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
    if (!HasNccl(pair)) continue;
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

// The dtype must be able to represent the number of ranks.
TEST(IsAverageExactTest, OfIntegersThatHoldTheNumberOfRanks) {
  struct Row {
    DType dtype;
    int most_ranks;  // Exact up to this many. 0: never; INT_MAX: always.
  };
  constexpr Row kTable[] = {{DType::kInt8, 127},
                            {DType::kUint8, 255},
                            {DType::kInt32, INT_MAX},
                            {DType::kInt64, INT_MAX},
                            {DType::kFloat16, 0},
                            {DType::kBFloat16, 0},
                            {DType::kFloat32, 0},
                            {DType::kFloat64, 0},
                            {DType::kBool, 0},
                            {DType::kInt16, INT16_MAX},
                            {DType::kUint16, UINT16_MAX},
                            {DType::kUint32, INT_MAX},
                            {DType::kUint64, INT_MAX}};
  static_assert(std::size(kTable) == kAllDTypes.size());
  for (const auto& [dtype, most_ranks] : kTable) {
    for (const int num_ranks :
         {1, 2, 3, 126, 127, 128, 129, 254, 255, 256, 257, 1000, INT16_MAX,
          INT16_MAX + 1, UINT16_MAX, UINT16_MAX + 1, INT_MAX}) {
      EXPECT_EQ(IsAverageExact(dtype, num_ranks), num_ranks <= most_ranks)
          << Name(dtype) << ", " << num_ranks << " ranks";
    }
  }
}

TEST(WhyNotWithNcclTest, LacksIntegersOf16BitsAndBitOperations) {
  for (const ReductionPair& pair : SupportedPairs()) {
    const std::string why_not =
        WhyNotWithNccl(pair.dtype, pair.kind, FinalOp());
    const bool is_16_bit =
        pair.dtype == DType::kInt16 || pair.dtype == DType::kUint16;
    if (is_16_bit) {
      EXPECT_EQ(why_not, absl::StrCat("has no ", Name(pair.dtype),
                                      ", which NCCL lacks"));
    } else {
      EXPECT_EQ(why_not.empty(), pair.kind <= ReductionKind::kMax)
          << Describe(pair);
    }
  }
}

// Number of launches of our reduction kernel, on all GPUs.
int64_t NumReductions(FakeNcclTasks& tasks, int gpus_per_task) {
  int64_t num = 0;
  for (int rank = 0; rank < tasks.size(); rank += gpus_per_task) {
    num += tasks.gpus(rank).NumCalls(GpuCall::kLaunchReduce);
  }
  return num;
}

TEST(NcclReduceTest, AnAverageIsNcclsOwnWhereExactAndElseOneKernelOfEachRank) {
  constexpr int kGpusPerTask = 2;
  FakeNcclTasks tasks({.num_tasks = 2, .gpus_per_task = kGpusPerTask});
  struct Row {
    ReductionPair pair;
    bool is_average;
    int num_kernels;
    CollectiveOp op = AllReduce{};
  };
  const Row table[] = {
      {{ReductionKind::kSum, DType::kInt8}, true, 0},
      {{ReductionKind::kSum, DType::kUint8}, true, 0},
      {{ReductionKind::kSum, DType::kInt32}, true, 0},
      {{ReductionKind::kSum, DType::kInt64}, true, 0},
      {{ReductionKind::kSum, DType::kUint32}, true, 0},
      {{ReductionKind::kSum, DType::kUint64}, true, 0},
      {{ReductionKind::kSum, DType::kInt32}, true, 0, ReduceToRoot{.root = 1}},
      {{ReductionKind::kSum, DType::kFloat16}, true, 4},
      {{ReductionKind::kSum, DType::kBFloat16}, true, 4},
      {{ReductionKind::kSum, DType::kFloat32}, true, 4},
      {{ReductionKind::kSum, DType::kFloat64}, true, 4},
      {{ReductionKind::kProd, DType::kInt32}, true, 4},
      {{ReductionKind::kMax, DType::kInt32}, true, 4},
      // Only the root has a result to divide.
      {{ReductionKind::kSum, DType::kFloat32},
       true,
       1,
       ReduceToRoot{.root = 1}},
      {{ReductionKind::kSum, DType::kFloat32}, false, 0},
      {{ReductionKind::kSum, DType::kInt32}, false, 0},
  };
  int64_t key = 0;
  for (const Row& row : table) {
    SCOPED_TRACE(absl::StrCat(Describe(row.pair), ", row ", key));
    const int64_t kernels = NumReductions(tasks, kGpusPerTask);
    const int launches = tasks.network().counts().launches;
    ASSERT_NO_FATAL_FAILURE(RunCase(tasks,
                                    {.pair = row.pair,
                                     .op = row.op,
                                     .num_elements = 7,
                                     .is_average = row.is_average},
                                    ++key));
    EXPECT_EQ(NumReductions(tasks, kGpusPerTask) - kernels, row.num_kernels);
    EXPECT_EQ(tasks.network().counts().launches - launches, 2);  // 1 per task.
  }
  EXPECT_THAT(tasks.Remains(), IsEmpty());
}

// Largest number of ranks that the dtype can represent, and the next.
TEST(NcclReduceTest, AnAverageOfBytesHasItsBitsAlsoAmongVeryManyRanks) {
  for (const int num_ranks : {127, 128}) {
    FakeNcclTasks tasks({.gpus_per_task = num_ranks});
    ASSERT_NO_FATAL_FAILURE(
        RunCase(tasks,
                {.pair = {ReductionKind::kSum, DType::kInt8},
                 .num_elements = 7,
                 .is_average = true},
                1));
    EXPECT_EQ(NumReductions(tasks, num_ranks), num_ranks > 127 ? num_ranks : 0);
    EXPECT_THAT(tasks.Remains(), IsEmpty());
  }
}

// Tests which implementation a group of GPUs chooses.

std::string Chosen(CollectiveType type, const GroupLayout& layout,
                   int64_t bytes, DType dtype = DType::kFloat32,
                   std::string implementation = "") {
  const auto selection =
      SelectImplementation(CollectiveRegistry::Global(),
                           {.type = type,
                            .layout = layout,
                            .device_type = "GPU",
                            .bytes = bytes,
                            .one_process = layout.num_tasks() == 1,
                            .implementation = std::move(implementation),
                            .dtype = dtype});
  return selection.ok() ? selection->name : selection.status().ToString();
}

bool HasNccl(CollectiveType type) {
  return type != CollectiveType::kBarrier && type != CollectiveType::kScatter;
}

bool HasLocal(CollectiveType type) {
  return type == CollectiveType::kAllReduce ||
         type == CollectiveType::kReduce ||
         type == CollectiveType::kBroadcast ||
         type == CollectiveType::kAllGather || type == CollectiveType::kGather;
}

TEST(NcclChoiceTest, SeveralProcessesUseNcclOnlyWhenNamed) {
  for (const CollectiveType type : kAllCollectiveTypes) {
    for (const int64_t bytes : {0, 4, 1 << 10, 1 << 20, 1 << 30}) {
      for (const int num_tasks : {2, 3, 16}) {
        for (const int gpus_per_task : {1, 2, 8}) {
          EXPECT_THAT(
              Chosen(type, GroupLayout::Uniform(num_tasks, gpus_per_task),
                     bytes),
              Not(StartsWith("Nccl")))
              << Name(type) << " of " << bytes << " bytes, " << num_tasks << "x"
              << gpus_per_task;
        }
      }
    }
  }
  EXPECT_EQ(Chosen(CollectiveType::kAllReduce, GroupLayout::Uniform(2, 2), 4,
                   DType::kFloat32, "NcclReduce"),
            "NcclReduce");
}

TEST(NcclChoiceTest, OneProcessUsesNcclWhereOneGpuCannotDoTheWorkOfAll) {
  for (const CollectiveType type : kAllCollectiveTypes) {
    if (!HasNccl(type)) continue;
    for (const int64_t bytes : {0, 4, 1 << 10, 1 << 20, 1 << 30}) {
      for (const int num_gpus : {2, 3, 8}) {
        EXPECT_THAT(Chosen(type, GroupLayout::Uniform(1, num_gpus), bytes),
                    StartsWith(HasLocal(type) ? "GpuLocal" : "Nccl"))
            << Name(type) << " of " << bytes << " bytes, " << num_gpus;
      }
    }
  }
}

TEST(NcclChoiceTest, IntegersThatNcclLacksAreReducedWithoutItAndMovedWithIt) {
  const GroupLayout layout = GroupLayout::Uniform(1, 2);
  for (const CollectiveType type : kAllCollectiveTypes) {
    if (!HasNccl(type)) continue;
    const std::string chosen = Chosen(type, layout, 1 << 20, DType::kInt16);
    EXPECT_EQ(absl::StartsWith(chosen, "Nccl"),
              !Reduces(type) && !HasLocal(type))
        << Name(type) << ": " << chosen;
  }
}

// Tests numbering and digests. nccl_group_test.cc tests processes with
// different orders.

TEST(NcclOrderTest, TheDigestIsOfAllLaunchesInTheirOrder) {
  const ExecKey one = {.generation = 1, .step = 1, .instance = 1};
  const ExecKey other = {.generation = 1, .step = 1, .instance = 2};
  NcclOrder order, same, reversed;
  order.Next(one);
  same.Next(one);
  reversed.Next(other);
  EXPECT_EQ(order.Next(other).launch, same.Next(other).launch);
  reversed.Next(one);
  EXPECT_NE(order.Next(one).launch.digest, reversed.Next(one).launch.digest);
}

TEST(NcclOrderTest, TheNthLaunchesOfAStepHaveOneKey) {
  NcclOrder order, other;
  other.Next({.step = 2, .instance = 7});
  const NcclTicket mine = order.Next({.step = 1, .instance = 1});
  const NcclTicket theirs = other.Next({.step = 1, .instance = 2});
  EXPECT_EQ(mine.key, theirs.key);
  EXPECT_NE(mine.launch, theirs.launch);
  EXPECT_NE(order.Next({.step = 1, .instance = 2}).key, mine.key);
}

}  // namespace nccl_reduce_test
}  // namespace tutti
