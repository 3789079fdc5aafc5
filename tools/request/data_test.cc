#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/tensor/small_floats.h"
#include "tests/doubles/status_matchers.h"
#include "tools/request/element.h"
#include "tools/request/result_watch.h"
#include "tools/request/test_data.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace data_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int64_t kCount = 500;

Workload Of(const std::string& reduction, DType dtype, int group_size) {
  return {.spec = *ParseCollectiveSpec(
              {.collective = "all_reduce", .reduction = reduction}),
          .dtype = dtype,
          .group_size = group_size,
          .count = kCount};
}

std::vector<std::byte> Reduce(
    const Workload& workload,
    const std::vector<std::vector<std::byte>>& contributions) {
  ReferenceReduction reduction(workload.spec, workload.dtype, kCount);
  for (const auto& elements : contributions) reduction.Add(elements);
  return reduction.Result();
}

class RandomElementsTest
    : public ::testing::TestWithParam<std::tuple<std::string, DType, int>> {
 protected:
  Workload workload() const {
    const auto& [reduction, dtype, group_size] = GetParam();
    return Of(reduction, dtype, group_size);
  }

  // Floats of 8 bits have too few whole numbers for many ranks.
  bool IsSupported() const {
    const DType dtype = workload().dtype;
    const bool has_numbers =
        !IsFloating(dtype) || SizeOf(dtype) > 1 || workload().group_size <= 8;
    return has_numbers && workload().spec.merge_op.CheckSupports(dtype).ok();
  }

  std::vector<std::vector<std::byte>> Contributions() const {
    std::vector<std::vector<std::byte>> contributions;
    for (int rank = 0; rank < workload().group_size; ++rank) {
      contributions.push_back(RandomElements(workload(), kCount, rank));
    }
    return contributions;
  }
};

// Rounding after each step, as the library does, gives the same result.
TEST_P(RandomElementsTest, NothingIsRoundedOnTheWay) {
  if (!IsSupported()) GTEST_SKIP();
  const auto contributions = Contributions();
  CollectiveSpec step = workload().spec;
  if (step.reduction == "avg") step.reduction = "sum";
  std::vector<std::byte> partial = contributions[0];
  for (size_t rank = 1; rank < contributions.size(); ++rank) {
    ReferenceReduction one_step(step, workload().dtype, kCount);
    one_step.Add(partial);
    one_step.Add(contributions[rank]);
    partial = one_step.Result();
  }
  Workload all_at_once = workload();
  all_at_once.spec = step;
  EXPECT_EQ(partial, Reduce(all_at_once, contributions));
}

TEST_P(RandomElementsTest, AContributionThatIsMissingShows) {
  if (!IsSupported() || workload().group_size == 1) GTEST_SKIP();
  const auto contributions = Contributions();
  const auto whole = Reduce(workload(), contributions);
  for (size_t rank : {size_t{0}, contributions.size() - 1}) {
    auto others = contributions;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
    EXPECT_NE(Reduce(workload(), others), whole) << "without rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RandomElementsTest,
    ::testing::Combine(::testing::Values("sum", "avg", "prod", "min", "max",
                                         "band", "bor", "bxor"),
                       ::testing::ValuesIn(kAllDTypes),
                       ::testing::Values(1, 2, 8, 63)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_",
                          Name(std::get<1>(info.param)), "_",
                          std::get<2>(info.param));
    });

TEST(RandomElementsTest, TheSeedDecides) {
  const Workload workload = Of("sum", DType::kFloat32, 4);
  EXPECT_EQ(RandomElements(workload, kCount, 1),
            RandomElements(workload, kCount, 1));
  EXPECT_NE(RandomElements(workload, kCount, 1),
            RandomElements(workload, kCount, 2));
}

TEST(RandomElementsTest, BoolsAreZeroOrOne) {
  const Workload workload = {.spec = {.type = CollectiveType::kBroadcast},
                             .dtype = DType::kBool};
  const auto elements = RandomElements(workload, kCount, 1);
  for (std::byte element : elements)
    EXPECT_LE(std::to_integer<int>(element), 1);
  EXPECT_TRUE(std::count(elements.begin(), elements.end(), std::byte{1}) > 0);
}

TEST(RandomElementsTest, FewRanksAreExactWhereSumsHaveFewBits) {
  EXPECT_EQ(MaxExactRanks(Of("sum", DType::kBFloat16, 1000)), 256);
  EXPECT_EQ(MaxExactRanks(Of("avg", DType::kFloat16, 1000)), 2048);
  EXPECT_EQ(MaxExactRanks(Of("sum", DType::kFloat32, 1000)), kMaxGroupSize);
  EXPECT_EQ(MaxExactRanks(Of("sum", DType::kFloat8E4M3FN, 1000)), 16);
  EXPECT_EQ(MaxExactRanks(Of("avg", DType::kFloat8E5M2, 1000)), 8);
  EXPECT_EQ(MaxExactRanks(Of("max", DType::kBFloat16, 1000)), kMaxGroupSize);
}

CollectiveSpec Spec(const std::string& reduction) {
  return *ParseCollectiveSpec(
      {.collective = "all_reduce", .reduction = reduction});
}

// Result of reducing one element per rank.
template <typename Element>
Element Reduced(const std::string& reduction, DType dtype,
                const std::vector<Element>& elements) {
  ReferenceReduction reference(Spec(reduction), dtype, 1);
  for (const Element& element : elements) {
    reference.Add(
        {reinterpret_cast<const std::byte*>(&element), sizeof(element)});
  }
  Element result;
  std::memcpy(&result, reference.Result().data(), sizeof(result));
  return result;
}

TEST(ReferenceReductionTest, ReducesFloats) {
  const std::vector<float> elements = {3, -5, 0.5};
  EXPECT_EQ(Reduced("sum", DType::kFloat32, elements), -1.5f);
  EXPECT_EQ(Reduced("avg", DType::kFloat32, elements), -0.5f);
  EXPECT_EQ(Reduced("prod", DType::kFloat32, elements), -7.5f);
  EXPECT_EQ(Reduced("min", DType::kFloat32, elements), -5.0f);
  EXPECT_EQ(Reduced("max", DType::kFloat32, elements), 3.0f);
}

TEST(ReferenceReductionTest, ReducesIntegers) {
  const std::vector<int32_t> elements = {12, -10, 7};
  EXPECT_EQ(Reduced("sum", DType::kInt32, elements), 9);
  EXPECT_EQ(Reduced("avg", DType::kInt32, elements), 3);
  EXPECT_EQ(Reduced("prod", DType::kInt32, elements), -840);
  EXPECT_EQ(Reduced("min", DType::kInt32, elements), -10);
  EXPECT_EQ(Reduced("max", DType::kInt32, elements), 12);
  EXPECT_EQ(Reduced("band", DType::kInt32, elements), 12 & -10 & 7);
  EXPECT_EQ(Reduced("bor", DType::kInt32, elements), 12 | -10 | 7);
  EXPECT_EQ(Reduced("bxor", DType::kInt32, elements), 12 ^ -10 ^ 7);
}

TEST(ReferenceReductionTest, IntegersWrapAround) {
  EXPECT_EQ(Reduced<int8_t>("sum", DType::kInt8, {100, 100}), -56);
  EXPECT_EQ(Reduced<uint8_t>("prod", DType::kUint8, {16, 17}), 16);
  EXPECT_EQ(Reduced<int64_t>("sum", DType::kInt64, {INT64_MAX, 1}), INT64_MIN);
  EXPECT_EQ(Reduced<uint16_t>("sum", DType::kUint16, {65535, 2}), 1);
  EXPECT_EQ(Reduced<uint64_t>("sum", DType::kUint64, {UINT64_MAX, 2}), 1u);
}

TEST(ReferenceReductionTest, AveragesOfIntegersTruncateTowardZero) {
  EXPECT_EQ(Reduced<int32_t>("avg", DType::kInt32, {-7, 0}), -3);
  EXPECT_EQ(Reduced<uint8_t>("avg", DType::kUint8, {200, 50}), 125);
  EXPECT_EQ(Reduced<uint64_t>("avg", DType::kUint64, {UINT64_MAX, 0}),
            UINT64_MAX / 2);
}

TEST(ReferenceReductionTest, AveragesOfIntegersAreExact) {
  EXPECT_EQ(Reduced<int8_t>("avg", DType::kInt8, {127, 127, 127}), 127);
  EXPECT_EQ(Reduced<int64_t>("avg", DType::kInt64, {INT64_MIN, INT64_MIN}),
            INT64_MIN);
  EXPECT_EQ(Reduced<uint64_t>("avg", DType::kUint64, {UINT64_MAX, UINT64_MAX}),
            UINT64_MAX);
}

TEST(ReferenceReductionTest, UnsignedIsNotSigned) {
  EXPECT_EQ(Reduced<uint8_t>("max", DType::kUint8, {200, 100}), 200);
  EXPECT_EQ(Reduced<int8_t>("max", DType::kInt8, {-56, 100}), 100);
  EXPECT_EQ(Reduced<uint64_t>("max", DType::kUint64, {UINT64_MAX, 1}),
            UINT64_MAX);
  EXPECT_EQ(Reduced<int16_t>("min", DType::kInt16, {-1, 1}), -1);
}

TEST(ReferenceReductionTest, ReducesSixteenBitFloats) {
  EXPECT_EQ(
      Float16ToFloat(Reduced<uint16_t>(
          "sum", DType::kFloat16, {FloatToFloat16(1.5f), FloatToFloat16(-4)})),
      -2.5f);
  EXPECT_EQ(
      BFloat16ToFloat(Reduced<uint16_t>(
          "avg", DType::kBFloat16, {FloatToBFloat16(3), FloatToBFloat16(-1)})),
      1.0f);
}

TEST(ReferenceReductionTest, EveryElementIsReducedOnItsOwn) {
  ReferenceReduction reference(Spec("sum"), DType::kUint8, 3);
  for (int rank = 0; rank < 2; ++rank) {
    const std::byte elements[] = {std::byte{1}, std::byte{2}, std::byte{3}};
    reference.Add(elements);
  }
  EXPECT_EQ(reference.Result(),
            (std::vector<std::byte>{std::byte{2}, std::byte{4}, std::byte{6}}));
}

template <typename Value>
Tensor Wrap(DType dtype, std::vector<Value>& values) {
  const auto size = static_cast<int64_t>(values.size());
  return *Tensor::Wrap(dtype, TensorShape::Vector(size), values.data());
}

TEST(SummaryOfTest, SaysTheExtentOfFloatingNumbers) {
  std::vector<float> values = {2.5F, -1, 0};
  EXPECT_EQ(SummaryOf(Wrap(DType::kFloat32, values)),
            "float32[3], min -1, mean 0.5, max 2.5");
  std::vector<uint16_t> halves = {0x3C00, 0x4200};
  EXPECT_EQ(SummaryOf(Wrap(DType::kFloat16, halves)),
            "float16[2], min 1, mean 2, max 3");
}

TEST(SummaryOfTest, CountsWhatIsNotANumberApart) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> some = {kNan, 1, kInfinity, kNan};
  EXPECT_EQ(SummaryOf(Wrap(DType::kFloat32, some)),
            "float32[4], min 1, mean inf, max inf, 2 nan");
  std::vector<float> all = {kNan};
  EXPECT_EQ(SummaryOf(Wrap(DType::kFloat32, all)), "float32[1], 1 nan");
}

TEST(SummaryOfTest, KeepsIntegersExact) {
  std::vector<int64_t> values = {(int64_t{1} << 53) + 1, -7};
  EXPECT_THAT(SummaryOf(Wrap(DType::kInt64, values)),
              testing::AllOf(HasSubstr("int64[2], min -7, "),
                             HasSubstr("max 9007199254740993")));
  std::vector<uint64_t> large = {UINT64_MAX, 7};
  EXPECT_THAT(SummaryOf(Wrap(DType::kUint64, large)),
              testing::AllOf(HasSubstr("uint64[2], min 7, "),
                             HasSubstr("max 18446744073709551615")));
  EXPECT_EQ(SummaryOf(*Tensor::Allocate(DType::kInt8, TensorShape::Vector(0))),
            "int8[0], empty");
}

class ResultWatchTest : public testing::Test {
 protected:
  static constexpr int kNumDevices = 3;
  static constexpr int kFirstRank = 6;

  void SetUp() override {
    auto group = LocalGroup::Create(environment_.get(), 1, kNumDevices);
    ASSERT_THAT(group, IsOk());
    group_ = *std::move(group);
    auto watch = ResultWatch::Start(environment_.get(), group_->devices(),
                                    kFirstRank, out_);
    ASSERT_THAT(watch, IsOk());
    watch_ = *std::move(watch);
    group_->manager().SetObserver(watch_->observer());
  }

  absl::Status Run(CollectiveOp op, std::vector<std::vector<float>> values) {
    std::vector<Tensor> inputs;
    for (auto& of_rank : values) {
      inputs.push_back(Wrap(DType::kFloat32, of_rank));
    }
    CollectiveRequest request;
    request.op = op;
    return group_->Run(/*step_id=*/1, request, inputs).status();
  }

  std::vector<std::string> Lines() const {
    return absl::StrSplit(out_.str(), '\n', absl::SkipEmpty());
  }

  DefaultEnvironment environment_{2};
  std::ostringstream out_;
  std::unique_ptr<LocalGroup> group_;
  std::unique_ptr<ResultWatch> watch_;
};

TEST_F(ResultWatchTest, PrintsALineForEachRank) {
  ASSERT_THAT(Run(AllReduce(), {{1, 2}, {3, 4}, {5, 6}}), IsOk());
  EXPECT_THAT(watch_->Finish(), IsOk());
  EXPECT_THAT(Lines(), UnorderedElementsAre(
                           "rank 6: float32[2], min 9, mean 10.5, max 12",
                           "rank 7: float32[2], min 9, mean 10.5, max 12",
                           "rank 8: float32[2], min 9, mean 10.5, max 12"));
}

TEST_F(ResultWatchTest, LeavesOutWhoHasNone) {
  ASSERT_THAT(Run(ReduceToRoot{.root = 1}, {{1}, {2}, {3}}), IsOk());
  EXPECT_THAT(watch_->Finish(), IsOk());
  EXPECT_THAT(Lines(),
              UnorderedElementsAre("rank 7: float32[1], min 6, mean 6, max 6"));
}

TEST_F(ResultWatchTest, PrintsNothingOfWhatFails) {
  EXPECT_FALSE(Run(AllReduce(), {{1}, {2, 3}, {4}}).ok());
  EXPECT_THAT(watch_->Finish(), IsOk());
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(ResultWatchTest, OneThatIsNotFinishedPrintsAllTheSame) {
  ASSERT_THAT(Run(AllReduce(), {{1}, {2}, {3}}), IsOk());
  watch_.reset();
  EXPECT_EQ(Lines().size(), 3U);
}

void Copy(std::byte* into, const std::byte* from, size_t num_bytes) {
  std::memcpy(into, from, num_bytes);
}

Workload Of(CollectiveType type, DType dtype, int group_size, int64_t count) {
  Workload workload = {
      .spec = *ParseCollectiveSpec({.collective = std::string(Name(type))}),
      .dtype = dtype,
      .group_size = group_size,
      .count = count};
  workload.spec.root = group_size - 1;
  for (int rank = 0; rank < group_size; ++rank) {
    workload.spec.permutation.push_back((rank + 1) % group_size);
  }
  return workload;
}

std::vector<std::byte> InputOf(const TestData& data, const Workload& workload,
                               int rank) {
  std::vector<std::byte> input(InputElements(workload, rank) *
                               SizeOf(workload.dtype));
  data.WriteInput(rank, input.data(), Copy);
  return input;
}

// Computes the right output from the inputs, for sums of float32.
std::vector<std::byte> OutputOf(const TestData& data, const Workload& workload,
                                int rank) {
  std::vector<std::vector<std::byte>> inputs;
  for (int r = 0; r < workload.group_size; ++r) {
    inputs.push_back(InputOf(data, workload, r));
  }
  std::vector<std::byte> output;
  for (const Segment& segment : ExpectedOutput(workload, rank)) {
    for (int64_t i = segment.begin; i < segment.begin + segment.count; ++i) {
      std::byte element[4];
      if (segment.source != Segment::kReduction) {
        std::memcpy(element, &inputs[segment.source][i * 4], 4);
      } else {
        float sum = 0;
        const int num_reduced = NumReduced(workload.spec.type, rank,
                                           static_cast<int>(inputs.size()));
        for (int r = 0; r < num_reduced; ++r) {
          sum += LoadAs<float>(&inputs[r][i * 4]);
        }
        StoreAs(sum, element);
      }
      output.insert(output.end(), element, element + 4);
    }
  }
  return output;
}

class TestDataTest : public ::testing::TestWithParam<CollectiveType> {};

// Covers sizes around the period and far beyond it.
TEST_P(TestDataTest, FindsRightOutputsRightAndEveryWrongElement) {
  for (int64_t count : {int64_t{3}, int64_t{3000}, TestData::kPeriod * 3,
                        TestData::kPeriod * 6 + 3}) {
    const Workload workload = Of(GetParam(), DType::kFloat32, 3, count);
    const TestData data(workload, /*seed=*/1, /*with_results=*/true);
    for (int rank = 0; rank < 3; ++rank) {
      auto output = OutputOf(data, workload, rank);
      EXPECT_EQ(data.CountWrong(rank, output), 0) << count;
      if (output.empty()) continue;
      output.front() ^= std::byte{1};
      output.back() ^= std::byte{1};
      EXPECT_EQ(data.CountWrong(rank, output), output.size() == 4 ? 1 : 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Collectives, TestDataTest,
    ::testing::Values(CollectiveType::kAllReduce, CollectiveType::kAllGather,
                      CollectiveType::kReduceScatter,
                      CollectiveType::kBroadcast, CollectiveType::kAllToAll,
                      CollectiveType::kPermute, CollectiveType::kReduce,
                      CollectiveType::kGather, CollectiveType::kScatter,
                      CollectiveType::kScan, CollectiveType::kExscan),
    [](const auto& info) { return std::string(Name(info.param)); });

TEST(TestDataTest, AnOutputOfTheWrongSizeIsAllWrong) {
  const Workload workload =
      Of(CollectiveType::kAllReduce, DType::kFloat32, 2, 10);
  const TestData data(workload, 1, /*with_results=*/true);
  EXPECT_EQ(data.CountWrong(0, {}), 10);
}

TEST(TestDataTest, RanksBringDifferentThings) {
  const Workload workload =
      Of(CollectiveType::kAllReduce, DType::kInt32, 50, 100);
  const TestData data(workload, 1, /*with_results=*/true);
  std::set<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < 50; ++rank) {
    inputs.insert(InputOf(data, workload, rank));
  }
  EXPECT_EQ(inputs.size(), 50u);
}

TEST(TestDataTest, OnlySomeRanksBringSomethingWhereSumsHaveFewBits) {
  const Workload workload =
      Of(CollectiveType::kAllReduce, DType::kBFloat16, 600, 100);
  std::set<int> have_brought;
  for (uint64_t seed : {0, 1, 2}) {
    const TestData data(workload, seed, /*with_results=*/false);
    int num_bringing = 0;
    for (int rank = 0; rank < 600; ++rank) {
      const auto input = InputOf(data, workload, rank);
      if (input == std::vector<std::byte>(input.size())) continue;
      ++num_bringing;
      have_brought.insert(rank);
    }
    EXPECT_EQ(num_bringing, 200);
  }
  EXPECT_EQ(have_brought.size(), 600u) << "some rank never takes its turn";
}

constexpr int kReduction = Segment::kReduction;

Workload Of(CollectiveType type, int root = 0) {
  return {.spec = {.type = type, .root = root, .permutation = {2, 0, 1}},
          .dtype = DType::kFloat32,
          .group_size = 3,
          .count = 12};
}

TEST(WorkloadTest, CountsAreRoundedDownToWholeElements) {
  EXPECT_EQ(CountFor(CollectiveType::kAllReduce, DType::kFloat32, 3, 11), 2);
  EXPECT_EQ(CountFor(CollectiveType::kAllReduce, DType::kFloat64, 3, 4), 1);
}

TEST(WorkloadTest, CountsAreMultiplesOfTheGroupWhereThereAreBlocks) {
  for (CollectiveType type :
       {CollectiveType::kAllGather, CollectiveType::kReduceScatter,
        CollectiveType::kAllToAll, CollectiveType::kGather,
        CollectiveType::kScatter}) {
    EXPECT_EQ(CountFor(type, DType::kFloat32, 3, 44), 9);
    EXPECT_EQ(CountFor(type, DType::kFloat32, 3, 4), 3);
  }
}

TEST(WorkloadTest, ABarrierHasNoData) {
  EXPECT_EQ(CountFor(CollectiveType::kBarrier, DType::kFloat32, 3, 64), 0);
  Workload barrier = Of(CollectiveType::kBarrier);
  barrier.count = 0;
  EXPECT_EQ(LeastMovedBytes(barrier), 0);
  EXPECT_THAT(ExpectedOutput(barrier, 0), IsEmpty());
}

TEST(WorkloadTest, ReductionsGiveTheReduction) {
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kAllReduce), 2),
              ElementsAre(Segment{kReduction, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kReduceScatter), 2),
              ElementsAre(Segment{kReduction, 8, 4}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kReduce, 1), 1),
              ElementsAre(Segment{kReduction, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kReduce, 1), 0), IsEmpty());
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kScan), 0),
              ElementsAre(Segment{kReduction, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kExscan), 1),
              ElementsAre(Segment{kReduction, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kExscan), 0), IsEmpty());
}

TEST(WorkloadTest, GathersGiveAllBlocksInRankOrder) {
  EXPECT_THAT(
      ExpectedOutput(Of(CollectiveType::kAllGather), 2),
      ElementsAre(Segment{0, 0, 4}, Segment{1, 0, 4}, Segment{2, 0, 4}));
  EXPECT_THAT(
      ExpectedOutput(Of(CollectiveType::kGather, 2), 2),
      ElementsAre(Segment{0, 0, 4}, Segment{1, 0, 4}, Segment{2, 0, 4}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kGather, 2), 1), IsEmpty());
}

TEST(WorkloadTest, OthersGiveWhatTheirNamesSay) {
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kBroadcast, 1), 2),
              ElementsAre(Segment{1, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kScatter, 1), 2),
              ElementsAre(Segment{1, 8, 4}));
  EXPECT_THAT(
      ExpectedOutput(Of(CollectiveType::kAllToAll), 2),
      ElementsAre(Segment{0, 8, 4}, Segment{1, 8, 4}, Segment{2, 8, 4}));
  // Rank 0 sends to rank 2.
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kPermute), 2),
              ElementsAre(Segment{0, 0, 12}));
}

TEST(WorkloadTest, InputsAreWhatTheRequestSays) {
  for (CollectiveType type : kAllCollectiveTypes) {
    if (type == CollectiveType::kBarrier) continue;
    const Workload workload = Of(type, 1);
    EXPECT_EQ(RequestOf(workload, 1).shape.num_elements(),
              InputElements(workload, 1));
    EXPECT_THAT(Validate(RequestOf(workload, 1)), IsOk());
  }
  EXPECT_EQ(InputElements(Of(CollectiveType::kAllGather), 0), 4);
  EXPECT_EQ(InputElements(Of(CollectiveType::kScatter, 1), 0), 0);
  EXPECT_EQ(InputElements(Of(CollectiveType::kScatter, 1), 1), 12);
}

TEST(WorkloadTest, OutputsAreAsLargeAsTheirSegments) {
  for (CollectiveType type : kAllCollectiveTypes) {
    for (int rank = 0; rank < 3; ++rank) {
      int64_t elements = 0;
      for (const Segment& segment : ExpectedOutput(Of(type, 1), rank)) {
        elements += segment.count;
      }
      EXPECT_EQ(OutputElements(Of(type, 1), rank), elements) << Name(type);
    }
  }
}

// Regression: the call took a minute, listing 65536 segments of each of 65536
// ranks.
TEST(WorkloadTest, TheLeastOfTheLargestGroupIsKnownAtOnce) {
  const Workload workload = {.spec = {.type = CollectiveType::kAllGather},
                             .dtype = DType::kInt8,
                             .group_size = kMaxGroupSize,
                             .count = kMaxGroupSize};
  for (int times = 0; times < 100; ++times) {
    ASSERT_EQ(LeastMovedBytes(workload),
              int64_t{kMaxGroupSize} * (kMaxGroupSize + 1));
  }
}

TEST(WorkloadTest, TheLeastIsEveryInputAndOutputOnce) {
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kAllReduce)), 2 * 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kAllToAll)), 2 * 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kAllGather)), 48 + 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kBroadcast)), 48 + 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kGather)), 2 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kExscan)), (3 + 2) * 48);
}

TEST(WorkloadTest, TheLeastOfTheLargestWorkloadDoesNotOverflow) {
  const Workload workload = {.spec = {.type = CollectiveType::kAllReduce},
                             .dtype = DType::kFloat32,
                             .group_size = kMaxGroupSize,
                             .count = int64_t{1} << 48};
  EXPECT_EQ(LeastMovedBytes(workload), std::numeric_limits<int64_t>::max());
}

}  // namespace data_test
}  // namespace tutti
