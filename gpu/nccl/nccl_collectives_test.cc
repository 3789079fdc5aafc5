#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
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
namespace nccl_collectives_test {

using ::testing::AllOf;
using ::testing::Combine;
using ::testing::Each;
using ::testing::HasSubstr;
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

// Runs the case as instance `key` while the inputs are still being written.
void RunCase(FakeNcclTasks& tasks, const Case& test, int64_t key) {
  const auto [kind, dtype] = test.pair;
  CollectiveRequest request = tasks.Request(test.op, dtype, test.num_elements);
  request.instance_key = key;
  request.merge_op = kind;
  if (test.is_average) request.final_op = FinalOp::DivideByGroupSize();
  const auto* const to_root = std::get_if<ReduceToRoot>(&test.op);
  request.impl_details.implementation = "NcclReduce";
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
  const Bytes expected = Expected(test.pair, inputs, test.is_average);
  for (int rank = 0; rank < tasks.size(); ++rank) {
    ASSERT_THAT(tasks.ended()[rank], Optional(IsOk()));
    if (to_root != nullptr && to_root->root != rank) continue;
    ASSERT_EQ(tasks.Read(rank, outputs[rank]), expected) << rank;
  }
}

class LayoutsTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void TearDown() override { EXPECT_THAT(tasks_.Remains(), IsEmpty()); }

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
      if (is_average && IsMeanOfIntegers(pair.dtype, pair.kind,
                                         FinalOp::DivideByGroupSize())) {
        continue;  // Not for NCCL.
      }
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
}

TEST_P(LayoutsTest, NothingIsReducedToNothing) {
  ASSERT_NO_FATAL_FAILURE(RunCase(tasks_, {}, 1));
  EXPECT_EQ(tasks_.network().counts().launches, 0);
}

TEST(WhyNotWithNcclTest, LacksSomeDTypesAndBitOperations) {
  for (const ReductionPair& pair : SupportedPairs()) {
    const std::string why_not =
        WhyNotWithNccl(pair.dtype, pair.kind, FinalOp());
    const bool is_lacking =
        pair.dtype == DType::kInt16 || pair.dtype == DType::kUint16 ||
        pair.dtype == DType::kBool || pair.dtype == DType::kFloat8E4M3FN ||
        pair.dtype == DType::kFloat8E5M2 || IsComplex(pair.dtype);
    if (is_lacking) {
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

TEST(NcclReduceTest, AnAverageIsOneKernelOfEachRankWithAResult) {
  constexpr int kGpusPerTask = 2;
  FakeNcclTasks tasks({.num_tasks = 2, .gpus_per_task = kGpusPerTask});
  struct Row {
    ReductionPair pair;
    bool is_average;
    int num_kernels;
    CollectiveOp op = AllReduce{};
  };
  const Row table[] = {
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
  return type != CollectiveType::kBarrier && type != CollectiveType::kScatter &&
         !IsScan(type);
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

// Tests NcclGather, NcclBroadcast, NcclReduceScatter, NcclAllToAll and
// NcclPermute.

// Part of a member in a collective.
struct MemberPart {
  CollectiveRequest request;
  Bytes input;     // Empty: no input.
  Bytes expected;  // Empty: no output.
  bool has_output = true;

  // Offset of the input in the output's memory, or of the output in the
  // input's, where the call is in place. -1: it never is.
  int64_t input_at = -1, output_at = -1;
};

class CopiesTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void TearDown() override { EXPECT_THAT(tasks_.Remains(), IsEmpty()); }

  int size() const { return tasks_.size(); }

  // Runs the parts of all ranks in separate memory, and then in place.
  void Run(const std::function<MemberPart(int rank)>& part_of) {
    for (const bool in_place : {false, true}) {
      ASSERT_NO_FATAL_FAILURE(RunOnce(in_place, part_of));
    }
  }

  // Runs the parts of all ranks as the next instance.
  void RunOnce(bool in_place,
               const std::function<MemberPart(int rank)>& part_of) {
    ++key_;
    std::vector<MemberPart> parts;
    std::vector<Tensor> outputs(size()), inputs(size());
    for (int rank = 0; rank < size(); ++rank) parts.push_back(part_of(rank));
    for (int rank = 0; rank < size(); ++rank) {
      MemberPart& part = parts[rank];
      part.request.instance_key = key_;
      const size_t element = SizeOf(part.request.dtype);
      const auto vector_of = [&](const Bytes& bytes) {
        return TensorShape::Vector(
            static_cast<int64_t>(bytes.size() / element));
      };
      const auto make = [&](const Bytes& bytes) {
        return tasks_.Allocate(rank, part.request.dtype, vector_of(bytes));
      };
      // Makes a view of `all`; the view keeps `all` alive.
      const auto view = [&](const Tensor& all, int64_t at, const Bytes& bytes) {
        Tensor whole = all;
        return *Tensor::Wrap(part.request.dtype, vector_of(bytes),
                             whole.mutable_data() + at * element, [whole] {});
      };
      if (in_place && part.input_at >= 0) {
        outputs[rank] = make(part.expected);
        inputs[rank] = view(outputs[rank], part.input_at, part.input);
      } else {
        inputs[rank] = make(part.input);
        if (in_place && part.output_at >= 0) {
          outputs[rank] = view(inputs[rank], part.output_at, part.expected);
        }
      }
      tasks_.Write(rank, inputs[rank], part.input);
      tasks_.Call(rank, part.request, inputs[rank],
                  part.has_output ? &outputs[rank] : nullptr);
    }
    tasks_.RunAll();
    for (int rank = 0; rank < size(); ++rank) {
      ASSERT_THAT(tasks_.ended()[rank], Optional(IsOk()));
      if (!parts[rank].has_output) continue;
      ASSERT_EQ(tasks_.Read(rank, outputs[rank]), parts[rank].expected) << rank;
    }
  }

  Bytes Random(DType dtype, int64_t num_elements, int rank) const {
    return RandomElements(dtype, num_elements, 1000 * key_ + rank);
  }

  FakeNcclTasks tasks_{{.num_tasks = std::get<0>(GetParam()),
                        .gpus_per_task = std::get<1>(GetParam())}};
  int64_t key_ = 0;
};
INSTANTIATE_TEST_SUITE_P(TasksAndGpus, CopiesTest,
                         Combine(Values(1, 2, 3), Values(1, 2, 3)));

void Append(const Bytes& more, Bytes* all) {
  all->insert(all->end(), more.begin(), more.end());
}

TEST_P(CopiesTest, EveryDTypeIsGathered) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t num_elements : {0, 1, 7}) {
      ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
        MemberPart part = {
            .request = tasks_.Request(AllGather{}, dtype, num_elements),
            .input = Random(dtype, num_elements, rank)};
        for (int r = 0; r < size(); ++r) {
          Append(Random(dtype, num_elements, r), &part.expected);
        }
        part.input_at = rank * num_elements;
        return part;
      }));
    }
  }
}

TEST_P(CopiesTest, PartsOfDifferentSizesAreGathered) {
  ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
    const auto rows_of = [](int r) { return r == 1 ? 0 : 2 * r + 1; };
    MemberPart part = {.request = tasks_.Request(AllGather{.uneven = true},
                                                 DType::kInt32, rows_of(rank)),
                       .input = Random(DType::kInt32, rows_of(rank), rank)};
    part.request.impl_details.implementation = "NcclGather";
    int64_t before = 0;
    for (int r = 0; r < size(); ++r) {
      Append(Random(DType::kInt32, rows_of(r), r), &part.expected);
      if (r < rank) before += rows_of(r);
    }
    if (rows_of(rank) > 0) part.input_at = before;
    return part;
  }));
}

TEST_P(CopiesTest, EveryRootGathers) {
  for (int root = 0; root < size(); ++root) {
    ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
      MemberPart part = {.request = tasks_.Request(GatherToRoot{.root = root},
                                                   DType::kFloat16, 3),
                         .input = Random(DType::kFloat16, 3, rank),
                         .has_output = rank == root};
      part.request.impl_details.implementation = "NcclGather";
      for (int r = 0; r < size() && rank == root; ++r) {
        Append(Random(DType::kFloat16, 3, r), &part.expected);
      }
      if (rank == root) part.input_at = 3 * rank;
      return part;
    }));
  }
}

TEST_P(CopiesTest, EverySourceIsBroadcast) {
  for (int source = 0; source < size(); ++source) {
    for (const int64_t num_elements : {0, 5}) {
      ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
        MemberPart part = {
            .request = tasks_.Request(Broadcast{.is_source = rank == source},
                                      DType::kBool, num_elements),
            .expected = Random(DType::kBool, num_elements, source)};
        part.request.impl_details.implementation = "NcclBroadcast";
        if (rank != source) return part;
        part.input = part.expected;
        part.input_at = 0;
        return part;
      }));
    }
  }
}

TEST_P(CopiesTest, SumsAreScattered) {
  for (const int64_t num_elements : {0, 1, 5}) {
    ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
      MemberPart part = {.request =
                             tasks_.Request(ReduceScatter{}, DType::kUint8,
                                            num_elements * size())};
      for (int i = 0; i < num_elements * size(); ++i) {
        part.input.push_back(static_cast<uint8_t>(i + rank));
      }
      for (int64_t i = 0; i < num_elements; ++i) {
        const auto n = static_cast<int64_t>(size());
        part.expected.push_back(static_cast<uint8_t>(
            n * (rank * num_elements + i) + n * (n - 1) / 2));
      }
      part.output_at = rank * num_elements;
      return part;
    }));
  }
}

TEST_P(CopiesTest, EveryoneSendsToEveryone) {
  for (const int64_t block : {0, 1, 3}) {
    ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
      const auto bytes_of = [](const Bytes& all, int64_t begin, int64_t n) {
        return Bytes(all.begin() + begin, all.begin() + begin + n);
      };
      MemberPart part = {
          .request = tasks_.Request(AllToAll{}, DType::kInt8, block * size()),
          .input = Random(DType::kInt8, block * size(), rank)};
      for (int r = 0; r < size(); ++r) {
        Append(bytes_of(Random(DType::kInt8, block * size(), r), block * rank,
                        block),
               &part.expected);
      }
      part.input_at = 0;
      return part;
    }));
  }
}

TEST_P(CopiesTest, EveryPairMayHaveASizeOfItsOwn) {
  // Block from `from` to `to`.
  const auto block = [](int from, int to) {
    return Bytes(static_cast<size_t>((from + 2 * to) % 3),
                 static_cast<uint8_t>(16 * from + to));
  };
  ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
    AllToAll op;
    MemberPart part;
    for (int r = 0; r < size(); ++r) {
      op.send_rows.push_back(static_cast<int64_t>(block(rank, r).size()));
      Append(block(rank, r), &part.input);
      Append(block(r, rank), &part.expected);
    }
    part.request = tasks_.Request(op, DType::kUint8,
                                  static_cast<int64_t>(part.input.size()));
    part.request.impl_details.implementation = "NcclAllToAll";
    return part;
  }));
}

TEST_P(CopiesTest, EveryRankGetsWhatIsSentToIt) {
  // Targets: around a ring; in pairs, with one rank unpaired; to itself.
  const std::vector<std::function<int(int)>> targets = {
      [&](int rank) { return (rank + 1) % size(); },
      [&](int rank) { return size() - 1 - rank; },
      [](int rank) { return rank; }};
  for (const auto& target : targets) {
    ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
      Permute op;
      int from = 0;
      for (int r = 0; r < size(); ++r) {
        op.permutation.push_back(target(r));
        if (target(r) == rank) from = r;
      }
      MemberPart part = {.request = tasks_.Request(op, DType::kFloat64, 3),
                         .input = Random(DType::kFloat64, 3, rank),
                         .expected = Random(DType::kFloat64, 3, from)};
      part.request.impl_details.implementation = "NcclPermute";
      part.input_at = 0;
      return part;
    }));
  }
}

// Tests groups whose devices lack NCCL, or devices that NCCL cannot serve.
// Another implementation runs. A request that names NCCL's gets the reason.

constexpr int64_t kBlock = 3;

// Reduce-scatters of blocks of uint8, for which no other implementation uses a
// single pass of GPUs, or all-reduces of them.
class DeviceSums {
 public:
  explicit DeviceSums(FakeNcclTasks::Options options,
                      CollectiveOp op = ReduceScatter{})
      : tasks_(options), outputs_(tasks_.size()) {
    request_ =
        tasks_.Request(std::move(op), DType::kUint8, kBlock * tasks_.size());
  }

  FakeNcclTasks& tasks() { return tasks_; }
  CollectiveRequest& request() { return request_; }
  int num_keys() { return tasks_.network().counts().ids; }
  int num_launches() { return tasks_.network().counts().launches; }

  void CallAll(const std::string& implementation) {
    request_.impl_details.implementation = implementation;
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      const Tensor input = tasks_.Allocate(rank, DType::kUint8, request_.shape);
      tasks_.Write(
          rank, input,
          Bytes(kBlock * tasks_.size(), static_cast<uint8_t>(rank + 1)));
      outputs_[rank] = Tensor();
      tasks_.Call(rank, request_, input, &outputs_[rank]);
    }
    for (int i = 0; i < 20; ++i) tasks_.RunAll();
  }

  void ExpectSums(const std::string& implementation = "") {
    const int sum = tasks_.size() * (tasks_.size() + 1) / 2;
    ExpectAll(static_cast<uint8_t>(sum), implementation);
  }

  void ExpectAll(uint8_t result, const std::string& implementation = "") {
    CallAll(implementation);
    ASSERT_THAT(tasks_.TakeCalls(), Each(Optional(IsOk())));
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      EXPECT_THAT(tasks_.Read(rank, outputs_[rank]), Each(result));
    }
  }

  // Expects that all members are refused with the alternatives, and nothing is
  // left.
  void ExpectRefused(const std::string& implementation,
                     const std::string& why_not) {
    CallAll(implementation);
    EXPECT_THAT(
        tasks_.TakeCalls(),
        Each(Optional(IsInvalidArgument(absl::StrCat(
            ": ", implementation, " ", why_not, "; these can serve: ")))));
    EXPECT_EQ(tasks_.network().counts().inits, 0);
  }

  std::vector<std::string> Remains() {
    outputs_.clear();
    return tasks_.Remains();
  }

 private:
  FakeNcclTasks tasks_;
  CollectiveRequest request_;
  std::vector<Tensor> outputs_;
};

TEST(NcclDevicesTest, WhereNothingIsLackingNcclServes) {
  DeviceSums sums({.gpus_per_task = 3});
  sums.ExpectSums();
  EXPECT_EQ(sums.num_keys(), 1);
  EXPECT_EQ(sums.num_launches(), 1);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

// Without NCCL; with two devices on one GPU; without the leader's key.
TEST(NcclDevicesTest, WhereSomethingIsLackingOthersServe) {
  for (const FakeNcclTasks::Options& options :
       {FakeNcclTasks::Options{.gpus_per_task = 3, .tasks_with_nccl = 0},
        FakeNcclTasks::Options{.gpus_per_task = 2, .devices_per_gpu = 2},
        FakeNcclTasks::Options{.gpus_per_task = 2}}) {
    DeviceSums sums(options);
    sums.tasks().network().FailNextId(absl::InternalError("no socket"));
    sums.ExpectSums();
    EXPECT_EQ(sums.num_keys(), 0);
    EXPECT_EQ(sums.num_launches(), 0);
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclDevicesTest, WhoLacksNcclIsNamed) {
  DeviceSums sums({.num_tasks = 2, .tasks_with_nccl = 1});
  const std::string why_not =
      "needs NCCL, which rank 2 (/job:localhost/replica:0/task:1/device:GPU:0) "
      "and 1 more do not have";
  sums.ExpectRefused("NcclReduceScatter", why_not);
  DeviceSums all_reduces({.num_tasks = 2, .tasks_with_nccl = 1}, AllReduce{});
  all_reduces.ExpectRefused("NcclThenRing", why_not);
  EXPECT_EQ(sums.num_keys() + all_reduces.num_keys(), 0);
}

// Devices of one process, and of two.
TEST(NcclDevicesTest, WhoAreOnOneGpuAreNamed) {
  DeviceSums({.gpus_per_task = 2, .devices_per_gpu = 2})
      .ExpectRefused(
          "NcclReduceScatter",
          "needs each member on a GPU of its own, but ranks 0 and 1 "
          "(/job:localhost/replica:0/task:0/device:GPU:0 and "
          "/job:localhost/replica:0/task:0/device:GPU:1) are on one");
  DeviceSums({.num_tasks = 2, .shares_gpus = true})
      .ExpectRefused(
          "NcclReduceScatter",
          "needs each member on a GPU of its own, but ranks 0 and 2 "
          "(/job:localhost/replica:0/task:0/device:GPU:0 and "
          "/job:localhost/replica:0/task:1/device:GPU:0) are on one");
}

TEST(NcclDevicesTest, WhyTheLeaderMadeNoKeyIsSaid) {
  DeviceSums sums({});
  sums.tasks().network().FailNextId(absl::InternalError("no socket"));
  sums.ExpectRefused("NcclReduceScatter",
                     "needs a key that the group's leader has not made: "
                     "no socket");
}

// Each member alone in its process, without NCCL; on the same GPUs as members
// of another process.
TEST(NcclDevicesTest, HybridsNeedNothingOfOtherProcesses) {
  for (const FakeNcclTasks::Options& options :
       {FakeNcclTasks::Options{.num_tasks = 2,
                               .gpus_per_task = 1,
                               .shares_gpus = true,
                               .tasks_with_nccl = 0},
        FakeNcclTasks::Options{.num_tasks = 2, .shares_gpus = true}}) {
    SCOPED_TRACE(absl::StrCat(options.gpus_per_task, " GPUs per task"));
    DeviceSums sums(options, AllReduce{});
    sums.ExpectSums("NcclThenRing");
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclDevicesTest, BitOpsAreLeftToOthers) {
  for (const auto& [kind, result] : {std::pair(ReductionKind::kBand, 1 & 2),
                                     {ReductionKind::kBor, 1 | 2},
                                     {ReductionKind::kBxor, 1 ^ 2}}) {
    for (const int num_tasks : {1, 2}) {
      DeviceSums sums({.num_tasks = num_tasks, .gpus_per_task = 2 / num_tasks},
                      AllReduce{});
      sums.request().merge_op = kind;
      sums.request().instance_key = 1;
      sums.ExpectRefused("NcclReduce",
                         absl::StrCat("has no merge op \"", Name(kind),
                                      "\", which NCCL lacks"));
      sums.request().instance_key = 2;
      sums.ExpectAll(static_cast<uint8_t>(result));
      EXPECT_EQ(sums.num_launches(), 0);
      EXPECT_THAT(sums.Remains(), IsEmpty());
    }
  }
}

TEST(NcclDevicesTest, FunctionsOfTheHostAreRefused) {
  const auto apply = [](auto...) { return absl::OkStatus(); };
  for (const std::string name : {"NcclReduce", "NcclThenRing"}) {
    DeviceSums merges({.gpus_per_task = 2}, AllReduce{});
    merges.request().merge_op =
        *MergeOp::Custom({.name = "mine", .commutative = true, .apply = apply});
    merges.ExpectRefused(name,
                         "cannot run the merge op \"mine\", a function of "
                         "yours, on a GPU");
  }
  DeviceSums ends({.gpus_per_task = 2}, AllReduce{});
  ends.request().final_op = *FinalOp::Custom({.name = "end", .apply = apply});
  ends.ExpectRefused("NcclReduce",
                     "cannot run the final op \"end\", a function of yours, "
                     "on a GPU");
}

constexpr int64_t kChunkElements = 16;
constexpr int64_t kChunkBytes = kChunkElements * sizeof(int32_t);

// Same as the registered hybrids, in small chunks.
REGISTER_COLLECTIVE(ThenRing, NcclThenFactory("RingReduce", kChunkBytes));
REGISTER_COLLECTIVE(ThenShuffle, NcclThenFactory("ShuffleReduce", kChunkBytes));
REGISTER_COLLECTIVE(ThenHalving,
                    NcclThenFactory("RecursiveHalvingDoublingReduce",
                                    kChunkBytes));

// First of two processes with two ranks each.
constexpr int kFirstProcess[] = {0, 1};

// HybridSums of integers, which wrap: the same in any order.
class HybridSums {
 public:
  HybridSums(FakeNcclTasks::Options options, std::string name,
             int64_t num_elements, uint64_t seed = 1)
      : tasks_(options),
        request_(tasks_.Request(AllReduce{}, DType::kInt32, num_elements)),
        sum_(static_cast<size_t>(num_elements)),
        max_(sum_.size(), INT32_MIN),
        given_(tasks_.size()),
        outputs_(tasks_.size()) {
    request_.impl_details.implementation = std::move(name);
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      inputs_.push_back(
          RandomElements(DType::kInt32, sum_.size(), 100 * seed + rank));
      for (size_t i = 0; i < sum_.size(); ++i) {
        uint32_t value = 0;
        std::memcpy(&value, &inputs_.back()[i * sizeof(value)], sizeof(value));
        sum_[i] += value;
        max_[i] = std::max(max_[i], static_cast<int32_t>(value));
      }
    }
  }

  FakeNcclTasks& tasks() { return tasks_; }
  CollectiveRequest& request() { return request_; }

  // Makes the buffers of the rank's call.
  void Give(int rank, bool in_place) {
    Tensor& input = given_[rank];
    input = tasks_.Allocate(rank, DType::kInt32, request_.shape);
    if (!inputs_[rank].empty()) tasks_.Write(rank, input, inputs_[rank]);
    outputs_[rank] = in_place ? input : Tensor();
  }
  void CallGiven(int rank) {
    tasks_.Call(rank, request_, std::move(given_[rank]), &outputs_[rank],
                step_);
  }
  void Call(int rank, bool in_place) {
    Give(rank, in_place);
    CallGiven(rank);
  }
  void CallAll(bool in_place) {
    for (int rank = 0; rank < tasks_.size(); ++rank) Call(rank, in_place);
  }

  // Runs repeatedly: launches follow each other when NCCL gets ready.
  void RunAll() {
    constexpr int kMostLaunches = 20;
    for (int i = 0; i < kMostLaunches; ++i) tasks_.RunAll();
  }

  // Calls on all ranks, and expects the sum. Settles the instance: later calls
  // of a process begin at once.
  void Run() {
    CallAll(/*in_place=*/false);
    RunAll();
    ExpectSums();
  }

  // Expects that all members have ended with the sum, or with the maximum,
  // divided.
  void ExpectSums(int32_t divisor = 1) {
    ASSERT_THAT(tasks_.ended(), Each(Optional(IsOk())));
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      ASSERT_TRUE(Result(rank) == Sum(divisor)) << rank;
    }
  }

  // Calls on the ranks of the first process. Returns the number of its launches
  // until it waits for the other process.
  int NumLaunchesOfOneProcess() {
    const int before = tasks_.network().counts().launches;
    for (const int rank : kFirstProcess) Call(rank, /*in_place=*/false);
    RunAll();
    return tasks_.network().counts().launches - before;
  }

  // Ends the generation: later calls belong to the next one, and to another
  // step.
  void FormAgain() {
    tasks_.EndGroup(absl::AbortedError("formed again"));
    RunAll();
    ++step_;
  }

  // Expects that the two ranks of a process can reduce as a separate group.
  void ExpectProcessReducesAlone(int first_rank) {
    CollectiveRequest request = request_;
    request.group_key = 7;
    request.group_size = 2;
    std::vector<Tensor> outputs(2);
    for (int place = 0; place < 2; ++place) {
      const int rank = first_rank + place;
      Tensor input = tasks_.Allocate(rank, DType::kInt32, request.shape);
      tasks_.Write(rank, input, Bytes(input.size_bytes(), 1 + place));
      request.rank = place;
      tasks_.Call(
          rank,
          {.request = std::make_shared<const CollectiveRequest>(request),
           .input = input,
           .output = &outputs[place]},
          step_);
    }
    RunAll();
    for (int place = 0; place < 2; ++place) {
      EXPECT_THAT(tasks_.ended()[first_rank + place], Optional(IsOk()));
      EXPECT_THAT(tasks_.Read(first_rank + place, outputs[place]), Each(1 + 2));
    }
  }

  Bytes Result(int rank) {
    return outputs_[rank].size_bytes() == 0 ? Bytes()
                                            : tasks_.Read(rank, outputs_[rank]);
  }
  Bytes Sum(int32_t divisor = 1) const {
    Bytes bytes(sum_.size() * sizeof(uint32_t));
    for (size_t i = 0; i < sum_.size(); ++i) {
      const int32_t value =
          divisor == 1 ? static_cast<int32_t>(sum_[i]) : max_[i] / divisor;
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    }
    return bytes;
  }

  std::vector<std::string> Remains() {
    outputs_.clear();
    return tasks_.Remains();
  }

 private:
  FakeNcclTasks tasks_;
  int64_t step_ = 1;
  CollectiveRequest request_;
  std::vector<Bytes> inputs_;
  std::vector<uint32_t> sum_;
  std::vector<int32_t> max_;
  std::vector<Tensor> given_, outputs_;
};

class ThenLayoutsTest
    : public testing::TestWithParam<std::tuple<std::string, int, int>> {};
INSTANTIATE_TEST_SUITE_P(TasksAndGpus, ThenLayoutsTest,
                         Combine(Values("NcclThenRing", "NcclThenShuffle",
                                        "NcclThenRecursiveHalvingDoubling",
                                        "ThenRing", "ThenShuffle",
                                        "ThenHalving"),
                                 Values(1, 2, 3), Values(1, 2, 3)));

TEST_P(ThenLayoutsTest, EveryMemberGetsTheReduction) {
  const auto& [name, num_tasks, gpus_per_task] = GetParam();
  uint64_t seed = 0;
  // Lengths: empty, few elements, one chunk, three chunks and a rest.
  for (const int64_t num_elements : {int64_t{0}, int64_t{1}, int64_t{7},
                                     kChunkElements, 3 * kChunkElements + 5}) {
    SCOPED_TRACE(num_elements);
    const bool divides = seed % 2 == 1;
    ++seed;
    HybridSums sums(
        {.seed = seed, .num_tasks = num_tasks, .gpus_per_task = gpus_per_task},
        name, num_elements, seed);
    FakeNcclTasks& tasks = sums.tasks();
    if (divides) {
      sums.request().merge_op = ReductionKind::kMax;
      sums.request().final_op = FinalOp::DivideByGroupSize();
    }
    // Runs the same instance twice.
    for (const bool in_place : {false, true}) {
      sums.CallAll(in_place);
      sums.RunAll();
      ASSERT_NO_FATAL_FAILURE(
          sums.ExpectSums(/*divisor=*/divides ? tasks.size() : 1));
    }
    // Both runs share a communicator per process, if any, with an end per rank.
    EXPECT_EQ(tasks.network().counts().inits,
              num_elements > 0 && gpus_per_task > 1 ? tasks.size() : 0);
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclThenTest, ChunksOverlapInAnyOrderOfStreams) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    HybridSums sums({.seed = seed, .num_tasks = 2, .gpus_per_task = 2},
                    "ThenRing", 3 * kChunkElements + 3, seed);
    sums.CallAll(/*in_place=*/seed % 2 == 0);
    sums.RunAll();
    ASSERT_NO_FATAL_FAILURE(sums.ExpectSums());
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclThenTest, SubdivisionsAndTheListOfRanksGoToTheSchedule) {
  HybridSums sums({.num_tasks = 3, .gpus_per_task = 2}, "ThenRing",
                  2 * kChunkElements + 1);
  sums.request().impl_details.subdiv_offsets = {0, -1};
  sums.request().impl_details.rank_list = {5, 4, 0, 1, 2, 3};
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

auto IsErrorWith(const std::string& text) {
  return AllOf(Not(IsOk()), ::testing::ResultOf(
                                [](const absl::Status& status) {
                                  return std::string(status.message());
                                },
                                HasSubstr(text)));
}

// Runs until NCCL and the GPUs have been checked for errors.
void RunUntilErrorsShow(HybridSums& sums) {
  sums.RunAll();
  sums.tasks().environment().Advance(2 * NcclGroup::kLookEvery);
  sums.RunAll();
}

// Expects that an error in one process ends all members, which have all called.
void EndsAllWith(HybridSums& sums, const std::string& text) {
  RunUntilErrorsShow(sums);
  EXPECT_THAT(sums.tasks().ended(), Each(Optional(IsErrorWith(text))));
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

FakeNcclTasks::Options TwoByTwo() {
  return {.num_tasks = 2, .gpus_per_task = 2};
}

// Communicators here have ranks of one process only.
TEST(NcclThenTest, CommunicatorsThatBlockWillDo) {
  // Launches of an execution may exceed the bound on launches of others.
  constexpr int64_t kNumChunks = NcclGroup::kMostRunning + 3;
  HybridSums sums({.num_tasks = 2, .why_blocking = "it is old"}, "ThenRing",
                  kNumChunks * kChunkElements);
  sums.CallAll(/*in_place=*/false);
  for (int64_t i = 0; i < kNumChunks; ++i) sums.tasks().RunAll();
  sums.ExpectSums();
  EXPECT_EQ(sums.tasks().network().counts().inits, 4);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

// NCCL of one task cannot have a communicator with the other task.
TEST(NcclThenTest, WhereCommunicatorsOfATaskBlockSomethingElseIsChosen) {
  FakeNcclTasks::Options options = TwoByTwo();
  options.first_that_blocks = 1;
  for (const char* const why_blocking : {"it is old", ""}) {
    options.why_blocking = why_blocking;
    HybridSums sums(options, /*name=*/"", kChunkElements);
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    EXPECT_EQ(sums.tasks().network().counts().inits,
              options.why_blocking.empty() ? 4 : 0);
  }
}

TEST(NcclThenTest, NcclReducesTheNextChunkWhileOneIsBetweenProcesses) {
  HybridSums sums(TwoByTwo(), "ThenRing", 4 * kChunkElements);
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  // The first launch waits for the other process, and the third for the first.
  EXPECT_EQ(sums.NumLaunchesOfOneProcess(), 2);
  for (const int rank : {2, 3}) sums.Call(rank, /*in_place=*/false);
  sums.RunAll();
  sums.ExpectSums();
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, AnErrorOfNcclEndsAllMembers) {
  for (const bool is_init : {true, false}) {
    HybridSums sums(TwoByTwo(), "ThenRing", 2 * kChunkElements);
    FakeNcclNetwork& network = sums.tasks().network();
    const auto error = absl::InternalError(is_init ? "no init" : "no launch");
    is_init ? network.FailNextInit(error) : network.FailNextLaunch(error);
    sums.CallAll(/*in_place=*/false);
    EndsAllWith(sums, is_init ? "no init" : "no launch");
  }
}

TEST(NcclThenTest, ACallThatFailsEndsAllMembersAndLeavesNothing) {
  struct Calls {
    GpuCall call;
    int num;  // Calls needed for the result.
  };
  for (const auto& [call, num] :
       {Calls{GpuCall::kCreateEvent, 6}, Calls{GpuCall::kRecordEvent, 6},
        Calls{GpuCall::kWaitForEvent, 4}}) {
    for (int num_good = 0; num_good < num; ++num_good) {
      SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), " after ",
                                num_good, " others"));
      HybridSums sums(TwoByTwo(), "ThenRing", 2 * kChunkElements);
      for (int rank = 0; rank < 4; ++rank) sums.Give(rank, /*in_place=*/true);
      sums.tasks().gpus(0).FailCall(call, num_good,
                                    absl::InternalError("no luck"));
      for (int rank = 0; rank < 4; ++rank) sums.CallGiven(rank);
      EndsAllWith(sums, "no luck");
    }
  }
}

TEST(NcclThenTest, ALaunchThatHangsEndsWithTheCollective) {
  HybridSums sums(TwoByTwo(), "NcclThenRing", 100);
  FakeNcclTasks& tasks = sums.tasks();
  tasks.network().HangLaunches(true);
  sums.CallAll(/*in_place=*/false);
  sums.RunAll();
  EXPECT_THAT(tasks.ended(), Each(std::nullopt));
  tasks.EndGroup(absl::AbortedError("the group is over"));
  sums.RunAll();
  tasks.environment().Advance(2 * NcclGroup::kLookEvery);
  sums.RunAll();
  EXPECT_THAT(tasks.ended(), Each(Optional(IsAborted("the group is over"))));
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, AProcessThatNeverComesIsNoReasonToKeepTheOthersBuffers) {
  HybridSums sums(TwoByTwo(), "ThenRing", 3 * kChunkElements);
  FakeNcclTasks& tasks = sums.tasks();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  ASSERT_GT(sums.NumLaunchesOfOneProcess(), 0);
  for (const int rank : kFirstProcess) {
    EXPECT_EQ(tasks.ended()[rank], std::nullopt);
  }
  tasks.executor(2)->StartAbort(absl::AbortedError("no time for it"));
  tasks.executor(0)->StartAbort(absl::AbortedError("no time for it"));
  sums.RunAll();
  for (const int rank : kFirstProcess) {
    EXPECT_THAT(tasks.ended()[rank], Optional(IsAborted("no time for it")));
  }
  sums.FormAgain();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, AnAsynchronousErrorEndsAllMembers) {
  for (const bool is_hanging : {false, true}) {
    HybridSums sums(TwoByTwo(), "ThenRing", 3 * kChunkElements);
    FakeNcclTasks& tasks = sums.tasks();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    tasks.network().HangLaunches(is_hanging);
    sums.CallAll(/*in_place=*/false);
    tasks.network().FailAll(absl::InternalError("the link is down"));
    RunUntilErrorsShow(sums);
    EXPECT_THAT(tasks.ended(), Each(Optional(IsInternal("the link is down"))));
    EXPECT_EQ(tasks.network().counts().aborts, 4);
    tasks.network().HangLaunches(false);
    sums.FormAgain();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    EXPECT_THAT(sums.Remains(), IsEmpty());
  }
}

TEST(NcclThenTest, AnAsynchronousErrorEndsAProcessThatIsAheadOfOthers) {
  HybridSums sums(TwoByTwo(), "ThenRing", 3 * kChunkElements);
  FakeNcclTasks& tasks = sums.tasks();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  ASSERT_GT(sums.NumLaunchesOfOneProcess(), 0);
  tasks.network().FailAll(absl::InternalError("the link is down"));
  RunUntilErrorsShow(sums);
  for (const int rank : kFirstProcess) {
    EXPECT_THAT(tasks.ended()[rank], Optional(IsErrorWith("the link is down")));
  }
  sums.FormAgain();
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclThenTest, ASpoiltGpuEndsAllMembersAndNoOtherProcessIsSpoilt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const int spoilt = static_cast<int>(seed % 4);
    SCOPED_TRACE(seed);
    HybridSums sums({.seed = seed, .num_tasks = 2, .gpus_per_task = 2},
                    "ThenRing", 3 * kChunkElements);
    FakeNcclTasks& tasks = sums.tasks();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    for (int rank = 0; rank < 4; ++rank) sums.Give(rank, /*in_place=*/true);
    tasks.gpus(spoilt).FailStream(tasks.device(spoilt).compute_stream(),
                                  absl::InternalError("illegal address"));
    for (int rank = 0; rank < 4; ++rank) sums.CallGiven(rank);
    RunUntilErrorsShow(sums);
    EXPECT_THAT(tasks.ended(), Each(Optional(IsInternal("illegal address"))));
    EXPECT_EQ(tasks.network().counts().living, 0);
    EXPECT_EQ(tasks.environment().num_alarms(), 0);
    sums.FormAgain();
    sums.ExpectProcessReducesAlone(/*first_rank=*/spoilt < 2 ? 2 : 0);
  }
}

}  // namespace nccl_collectives_test
}  // namespace tutti
