#include "examples/train/model.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "examples/train/data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace train {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

// The first images of the data set.
std::vector<Example> SomeExamples(int count) {
  const auto data = ReadDataSet(DefaultDataPath(), 0);
  if (!data.ok()) return {};
  return {data->training.begin(), data->training.begin() + count};
}

std::vector<float> GradientOf(absl::Span<const float> parameters,
                              absl::Span<const Example> examples) {
  std::vector<float> gradient(kNumParameters, NAN);
  ComputeGradient(parameters, examples, absl::MakeSpan(gradient));
  return gradient;
}

// Central difference.
double SlopeOfLoss(std::vector<float> parameters, int parameter,
                   absl::Span<const Example> examples) {
  constexpr float kStep = 1e-3f;
  const float at = parameters[parameter];
  parameters[parameter] = at + kStep;
  const double above = Evaluate(parameters, examples).loss;
  parameters[parameter] = at - kStep;
  const double below = Evaluate(parameters, examples).loss;
  return (above - below) / (2 * kStep);
}

TEST(InitialParametersTest, AreTheSameOnEveryMachine) {
  // Computed by NumPy's MT19937.
  const std::vector<float> parameters = InitialParameters(1);
  EXPECT_EQ(parameters[0], -0x1.a04386p-5f);
  EXPECT_EQ(parameters[1], 0x1.37c4f4p-2f);
  EXPECT_EQ(parameters[kNumHidden * (kNumPixels + 1)], -0x1.45ed6ep-5f);
}

TEST(InitialParametersTest, DependOnTheSeed) {
  EXPECT_NE(InitialParameters(1), InitialParameters(2));
}

TEST(ComputeGradientTest, IsTheSlopeOfTheLossForEveryParameter) {
  const std::vector<float> parameters = InitialParameters(1);
  const std::vector<Example> examples = SomeExamples(16);
  ASSERT_FALSE(examples.empty());
  const std::vector<float> gradient = GradientOf(parameters, examples);
  for (int i = 0; i < kNumParameters; ++i) {
    // Tolerates the loss's rounding error over twice the step, and a kink
    // within the step.
    EXPECT_NEAR(gradient[i], SlopeOfLoss(parameters, i, examples), 5e-4)
        << "parameter " << i;
  }
}

TEST(ComputeGradientTest, ReturnsTheLoss) {
  const std::vector<float> parameters = InitialParameters(1);
  const std::vector<Example> examples = SomeExamples(16);
  ASSERT_FALSE(examples.empty());
  std::vector<float> gradient(kNumParameters);
  EXPECT_NEAR(ComputeGradient(parameters, examples, absl::MakeSpan(gradient)),
              Evaluate(parameters, examples).loss, 1e-9);
}

TEST(PartsTest, CoverEachParameterOnce) {
  int next = 0;
  std::set<std::string> names;
  for (const Part& part : Parts()) {
    EXPECT_EQ(part.begin, next) << part.name;
    next += part.size;
    names.insert(part.name);
  }
  EXPECT_EQ(next, kNumParameters);
  EXPECT_EQ(names.size(), Parts().size());
}

TEST(BackpropagationTest, PartsAreTheSameInWhateverOrder) {
  const std::vector<float> parameters = InitialParameters(1);
  const std::vector<Example> examples = SomeExamples(16);
  ASSERT_FALSE(examples.empty());
  const Backpropagation backpropagation(parameters, examples);
  std::vector<float> gradient(kNumParameters, NAN);
  std::vector<Part> reversed(Parts().rbegin(), Parts().rend());
  for (const Part& part : reversed) {
    backpropagation.Compute(
        part, absl::MakeSpan(gradient).subspan(part.begin, part.size));
  }
  EXPECT_EQ(gradient, GradientOf(parameters, examples));
}

TEST(NormTest, IsTheRootOfTheSumOfSquares) {
  EXPECT_EQ(Norm({3, -4}), 5);
  EXPECT_EQ(Norm({}), 0);
}

TEST(ComputeGradientTest, OfABatchIsTheMeanOverItsEqualParts) {
  const std::vector<float> parameters = InitialParameters(1);
  const std::vector<Example> batch = SomeExamples(16);
  ASSERT_FALSE(batch.empty());
  const auto all = absl::MakeConstSpan(batch);
  std::vector<float> mean = GradientOf(parameters, all.subspan(0, 8));
  const std::vector<float> second = GradientOf(parameters, all.subspan(8));
  for (int i = 0; i < kNumParameters; ++i) mean[i] = (mean[i] + second[i]) / 2;
  EXPECT_THAT(mean, Pointwise(FloatNear(1e-6f), GradientOf(parameters, all)));
}

TEST(EvaluateTest, AModelThatKnowsNothingLosesLogarithmOfTen) {
  const std::vector<float> zeros(kNumParameters, 0.0f);
  const std::vector<Example> examples = SomeExamples(10);
  ASSERT_FALSE(examples.empty());
  EXPECT_NEAR(Evaluate(zeros, examples).loss, std::log(10.0), 1e-6);
}

TEST(EvaluateTest, AccuracyIsTheShareOfRightAnswers) {
  std::vector<float> always_three(kNumParameters, 0.0f);
  always_three[kNumParameters - kNumClasses + 3] = 1;
  std::vector<Example> examples = SomeExamples(4);
  ASSERT_FALSE(examples.empty());
  for (int i = 0; i < 4; ++i) examples[i].label = i;
  EXPECT_EQ(Evaluate(always_three, examples).accuracy, 0.25);
}

TEST(EvaluateTest, CertaintyLosesNothingWhenRightAndFinitelyWhenWrong) {
  std::vector<float> certain(kNumParameters, 0.0f);
  certain[kNumParameters - kNumClasses + 3] = 1000;  // exp() of it overflows.
  std::vector<Example> examples = SomeExamples(1);
  ASSERT_FALSE(examples.empty());
  examples[0].label = 3;
  EXPECT_EQ(Evaluate(certain, examples).loss, 0);
  examples[0].label = 4;
  EXPECT_TRUE(std::isfinite(Evaluate(certain, examples).loss));
}

TEST(LargestDifferenceTest, IgnoresTheSign) {
  EXPECT_EQ(LargestDifference({1, 2, 3}, {1, 4, 2}), 2);
  EXPECT_EQ(LargestDifference({1, 4, 2}, {1, 2, 3}), 2);
  EXPECT_EQ(LargestDifference({}, {}), 0);
}

}  // namespace
}  // namespace train
