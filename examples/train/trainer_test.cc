#include "examples/train/trainer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "examples/train/data.h"
#include "examples/train/model.h"
#include "examples/train/step_outfeed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/environment.h"

namespace train {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto data = ReadDataSet(DefaultDataPath(), 0);
    ASSERT_TRUE(data.ok()) << data.status();
    examples_ = std::move(data->training);
  }

  absl::Span<const Example> Examples(size_t count) const {
    return absl::MakeConstSpan(examples_).first(count);
  }

  // Returns null after a failure.
  std::unique_ptr<Trainer> NewTrainer(int num_devices, int batch_size) {
    auto trainer = Trainer::Create(
        environment_.get(),
        {.num_devices = num_devices, .batch_size = batch_size}, initial_);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return trainer.ok() ? *std::move(trainer) : nullptr;
  }

  const tutti::DefaultEnvironment environment_;
  const std::vector<float> initial_ = InitialParameters(1);

 private:
  std::vector<Example> examples_;
};

TEST_F(TrainerTest, ReplicasStayEqualBitForBit) {
  for (const int num_devices : {1, 2, 3, 8, 13}) {
    SCOPED_TRACE(num_devices);
    const auto trainer = NewTrainer(num_devices, 4);
    ASSERT_NE(trainer, nullptr);
    ASSERT_EQ(trainer->TrainEpoch(Examples(520)), absl::OkStatus());
    EXPECT_TRUE(trainer->ReplicasAreEqual());
  }
}

// Only the rounding of the averages differs: one unit in the last place of a
// gradient, about 1e-8, in each of 23 steps.
TEST_F(TrainerTest, EightDevicesLearnWhatOneLearnsFromTheWholeBatches) {
  const auto eight = NewTrainer(8, 8);
  const auto one = NewTrainer(1, 64);
  ASSERT_TRUE(eight != nullptr && one != nullptr);
  ASSERT_EQ(eight->TrainEpoch(Examples(1500)), absl::OkStatus());
  ASSERT_EQ(one->TrainEpoch(Examples(1500)), absl::OkStatus());
  EXPECT_LT(LargestDifference(eight->parameters(7), one->parameters(0)), 1e-5);
  EXPECT_GT(LargestDifference(eight->parameters(7), initial_), 0.1);
}

TEST_F(TrainerTest, StepsFollowTheGradientWithMomentum) {
  const auto trainer = NewTrainer(1, 16);
  ASSERT_NE(trainer, nullptr);
  ASSERT_EQ(trainer->TrainEpoch(Examples(32)), absl::OkStatus());

  std::vector<float> expected = initial_;
  std::vector<float> gradient(kNumParameters);
  std::vector<float> velocity(kNumParameters);
  for (const size_t begin : {0, 16}) {
    ComputeGradient(expected, Examples(32).subspan(begin, 16),
                    absl::MakeSpan(gradient));
    for (int i = 0; i < kNumParameters; ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i];
      expected[i] -= 0.1f * velocity[i];
    }
  }
  EXPECT_LT(LargestDifference(trainer->parameters(0), expected), 1e-6);
}

TEST_F(TrainerTest, ExamplesThatFillNoBatchAreLeftOut) {
  const auto trainer = NewTrainer(2, 4);
  ASSERT_NE(trainer, nullptr);
  EXPECT_EQ(trainer->StepsPerEpoch(23), 2);
  EXPECT_EQ(trainer->StepsPerEpoch(7), 0);
  ASSERT_EQ(trainer->TrainEpoch(Examples(7)), absl::OkStatus());
  EXPECT_THAT(trainer->parameters(1), ElementsAreArray(initial_));
}

TEST_F(TrainerTest, AnUnknownAlgorithmIsAnErrorThatNamesIt) {
  const auto trainer =
      Trainer::Create(environment_.get(), {.algorithm = "NoSuch"}, initial_);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::Status status = (*trainer)->TrainEpoch(Examples(64));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("NoSuch"));
}

TEST_F(TrainerTest, EveryDeviceReportsEveryStepThroughItsOutfeed) {
  constexpr int kNumDevices = 8;
  std::vector<StepReport> reports[kNumDevices];
  const auto trainer =
      Trainer::Create(environment_.get(),
                      {.num_devices = kNumDevices,
                       .batch_size = 4,
                       .on_step =
                           [&](int device, const StepReport& report) {
                             reports[device].push_back(report);
                           }},
                      initial_);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  for (int epoch = 0; epoch < 2; ++epoch) {
    ASSERT_EQ((*trainer)->TrainEpoch(Examples(96)), absl::OkStatus());
  }

  double first_loss = 0;
  for (const auto& own : reports) {
    ASSERT_EQ(own.size(), 6U);
    first_loss += own[0].loss / kNumDevices;
    for (size_t step = 0; step < own.size(); ++step) {
      EXPECT_EQ(own[step].gradient_norm, reports[0][step].gradient_norm);
    }
  }
  EXPECT_NEAR(first_loss, Evaluate(initial_, Examples(32)).loss, 1e-6);
  std::vector<float> gradient(kNumParameters);
  ComputeGradient(initial_, Examples(32), absl::MakeSpan(gradient));
  EXPECT_NEAR(reports[7][0].gradient_norm, Norm(gradient), 1e-5);
}

TEST_F(TrainerTest, AReportThatCannotBeTakenIsAnError) {
  const auto trainer = Trainer::Create(
      environment_.get(),
      {.num_devices = 2,
       .batch_size = 4,
       .on_step = [](int, const StepReport&) { throw std::string("full"); }},
      initial_);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_NE((*trainer)->TrainEpoch(Examples(96)), absl::OkStatus());
}

TEST_F(TrainerTest, NoDeviceIsAnError) {
  const auto trainer =
      Trainer::Create(environment_.get(), {.num_devices = 0}, initial_);
  EXPECT_EQ(trainer.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace train
