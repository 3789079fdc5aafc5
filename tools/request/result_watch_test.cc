#include "tools/request/result_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace result_watch_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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

}  // namespace result_watch_test
}  // namespace tutti
