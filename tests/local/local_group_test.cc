// LocalGroup in a program that does not use steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_group_test {

using testing::ElementsAre;

constexpr int64_t kStep = 1;

class LocalGroupTest : public testing::Test {
 protected:
  // A tensor of int32 that lives as long as the test.
  static Tensor Vector(std::initializer_list<int> values) {
    Tensor tensor = *Tensor::Allocate(
        DType::kInt32, TensorShape::Vector(static_cast<int>(values.size())));
    std::copy(values.begin(), values.end(),
              reinterpret_cast<int*>(tensor.mutable_data()));
    return tensor;
  }
  static std::vector<int> Values(const Tensor& tensor) {
    const auto* begin = reinterpret_cast<const int*>(tensor.data());
    return {begin, begin + tensor.num_elements()};
  }

  const DefaultEnvironment environment_;
  const std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_.get(), /*num_tasks=*/1,
                          /*devices_per_task=*/3);
};

TEST_F(LocalGroupTest, RulesThatMakeNoSenseAreRefused) {
  EXPECT_THAT(
      LocalGroup::Create(environment_.get(), 1, 3,
                         std::make_shared<const SelectionRules>(SelectionRules{
                             {{.implementation = "RingGather"}}})),
      IsInvalidArgument("a rule of all_reduce for RingGather: "));
}

TEST_F(LocalGroupTest, RunReturnsWhatEachRankGets) {
  const auto sums =
      group_->Run(kStep, {.op = AllReduce()},
                  {Vector({1, 2}), Vector({10, 20}), Vector({100, 200})});
  ASSERT_THAT(sums, IsOk());
  for (const Tensor& sum : *sums)
    EXPECT_THAT(Values(sum), ElementsAre(111, 222));
}

TEST_F(LocalGroupTest, RunTakesShapesFromTheInputs) {
  const auto rows = group_->Run(kStep, {.op = AllGather{.uneven = true}},
                                {Vector({1, 2}), Vector({}), Vector({3})});
  ASSERT_THAT(rows, IsOk());
  EXPECT_THAT(Values((*rows)[1]), ElementsAre(1, 2, 3));
}

TEST_F(LocalGroupTest, RunBroadcastsFromWhoHasAnInput) {
  const auto copies = group_->Run(kStep,
                                  {.op = Broadcast(),
                                   .dtype = DType::kInt32,
                                   .shape = TensorShape::Vector(2)},
                                  {Tensor(), Vector({4, 5}), Tensor()});
  ASSERT_THAT(copies, IsOk());
  EXPECT_THAT(Values((*copies)[0]), ElementsAre(4, 5));
  EXPECT_THAT(Values((*copies)[2]), ElementsAre(4, 5));
}

TEST_F(LocalGroupTest, RunRefusesAnotherNumberOfInputs) {
  EXPECT_THAT(group_->Run(kStep, {.op = AllReduce()}, {Vector({1})}),
              IsInvalidArgument("1 inputs for a group of 3 devices"));
}

TEST_F(LocalGroupTest, RunSaysWhoDiffers) {
  EXPECT_THAT(group_->Run(kStep, {.op = AllReduce()},
                          {Vector({1, 2}), Vector({1, 2}), Vector({1})}),
              IsInvalidArgument("shape"));
}

}  // namespace local_group_test
}  // namespace tutti
