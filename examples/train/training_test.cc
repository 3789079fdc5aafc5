#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "examples/train/data.h"
#include "examples/train/model.h"
#include "examples/train/step_outfeed.h"
#include "examples/train/step_watch.h"
#include "examples/train/trainer.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/environment.h"

namespace train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Record of a white image.
std::string Record(char label) { return std::string(kNumPixels, '\0') + label; }

// Path of a new file.
std::string FileOf(const std::string& content) {
  const std::string path = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

absl::Status ErrorOf(const std::string& content) {
  return ReadDataSet(FileOf(content), 0).status();
}

// https://doi.org/10.24432/C50P49, optdigits.names, "testing set".
TEST(ShippedDataTest, HasThePublishedNumberOfEachDigit) {
  const auto data = ReadDataSet(DefaultDataPath(), 0);
  ASSERT_TRUE(data.ok()) << data.status();
  std::array<int, kNumClasses> counts = {};
  for (const Example& example : data->training) ++counts[example.label];
  EXPECT_THAT(counts,
              ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
}

TEST(ShippedDataTest, BeginsWithTheFirstImageOfTheSource) {
  const auto data = ReadDataSet(DefaultDataPath(), 0);
  ASSERT_TRUE(data.ok()) << data.status();
  const Example& first = data->training.front();
  const std::array<float, 16> upper_rows = {0, 0, 5,  13, 9,  1,  0, 0,
                                            0, 0, 13, 15, 10, 15, 5, 0};
  for (size_t i = 0; i < upper_rows.size(); ++i) {
    EXPECT_EQ(first.pixels[i], upper_rows[i] / 16) << "pixel " << i;
  }
  EXPECT_EQ(first.label, 0);
}

TEST(ReadDataSetTest, TheLastExamplesAreForTheTest) {
  const auto data = ReadDataSet(FileOf(Record(1) + Record(2) + Record(3)), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->training.size(), 2);
  EXPECT_EQ(data->training[0].label, 1);
  EXPECT_EQ(data->training[1].label, 2);
  ASSERT_EQ(data->test.size(), 1);
  EXPECT_EQ(data->test[0].label, 3);
}

TEST(ReadDataSetTest, AMissingFileIsNotFoundByName) {
  const absl::Status status = ReadDataSet("/no/such/file", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/file"));
}

TEST(ReadDataSetTest, AFolderIsNotFound) {
  const absl::Status status = ReadDataSet(::testing::TempDir(), 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
}

TEST(ReadDataSetTest, ATruncatedFileIsDataLoss) {
  const absl::Status status = ErrorOf(Record(1).substr(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("64 bytes are not records of 65"));
}

TEST(ReadDataSetTest, APixelOutOfRangeIsDataLossSayingWhere) {
  std::string bad = Record(2);
  bad[5] = 17;
  const absl::Status status = ErrorOf(Record(1) + bad);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("record 1: pixel 5 is 17"));
}

TEST(ReadDataSetTest, ALabelOutOfRangeIsDataLossSayingWhere) {
  const absl::Status status = ErrorOf(Record(10));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("record 0: the label is 10"));
}

TEST(ReadDataSetTest, NothingToTrainOnIsDataLoss) {
  EXPECT_EQ(ErrorOf("").code(), absl::StatusCode::kDataLoss);
  const absl::Status status = ReadDataSet(FileOf(Record(1)), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("1 examples"));
}

TEST(ShuffleTest, IsTheSameOnEveryMachine) {
  std::vector<Example> examples(6);
  for (int i = 0; i < 6; ++i) examples[i].label = i;
  std::mt19937 generator(1);
  Shuffle(examples, generator);
  std::vector<int> labels;
  for (const Example& example : examples) labels.push_back(example.label);
  // Computed by NumPy's MT19937.
  EXPECT_THAT(labels, ElementsAre(3, 5, 2, 0, 4, 1));
}

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

class StepWatchTest : public testing::Test {
 protected:
  ~StepWatchTest() override { std::fclose(out_); }

  // Text printed since the last call.
  std::string Printed() {
    std::fflush(out_);
    std::string text;
    std::fseek(out_, read_, SEEK_SET);
    for (int c = std::fgetc(out_); c != EOF; c = std::fgetc(out_)) {
      text.push_back(static_cast<char>(c));
    }
    read_ = std::ftell(out_);
    return text;
  }

  StepWatch Watch(bool is_terminal) {
    return {/*num_devices=*/2, is_terminal, environment_.get().clock, out_};
  }

  tutti::SimulatedEnvironment environment_{/*seed=*/1};
  std::FILE* const out_ = std::tmpfile();
  long read_ = 0;
};

constexpr char kHeading[] = "  device    step       loss  gradient norm\n";

TEST_F(StepWatchTest, PrintsALinePerReportWhereThereIsNoTerminal) {
  StepWatch watch = Watch(/*is_terminal=*/false);
  watch.Add(1, {.loss = 0.5F, .gradient_norm = 2});
  watch.Clear();
  watch.Add(1, {.loss = 0.25F, .gradient_norm = 1});
  watch.Finish();
  EXPECT_EQ(Printed(),
            "device 1 step 1 loss 0.500000 gradient_norm 2.000000\n"
            "device 1 step 2 loss 0.250000 gradient_norm 1.000000\n");
}

TEST_F(StepWatchTest, PaintsOnATerminalTenTimesPerSecond) {
  StepWatch watch = Watch(/*is_terminal=*/true);
  watch.Add(1, {.loss = 0.5F, .gradient_norm = 2});
  EXPECT_EQ(Printed(), std::string(kHeading) +
                           "       0       0   0.000000       0.000000\n"
                           "       1       1   0.500000       2.000000\n");
  watch.Add(0, {.loss = 0.75F, .gradient_norm = 3});
  EXPECT_EQ(Printed(), "");
  environment_.Advance(absl::Milliseconds(100));
  watch.Add(1, {.loss = 0.25F, .gradient_norm = 1});
  EXPECT_EQ(Printed(), "\x1b[3A\x1b[J" + std::string(kHeading) +
                           "       0       1   0.750000       3.000000\n"
                           "       1       2   0.250000       1.000000\n");
}

TEST_F(StepWatchTest, MakesRoomForWhatOthersPrintAndShowsTheLastReports) {
  StepWatch watch = Watch(/*is_terminal=*/true);
  watch.Add(0, {.loss = 1, .gradient_norm = 1});
  Printed();
  watch.Add(0, {.loss = 0.5F, .gradient_norm = 0.5F});
  watch.Clear();
  EXPECT_EQ(Printed(), "\x1b[3A\x1b[J");
  watch.Finish();
  EXPECT_EQ(Printed(), std::string(kHeading) +
                           "       0       2   0.500000       0.500000\n"
                           "       1       0   0.000000       0.000000\n");
  watch.Clear();
  EXPECT_EQ(Printed(), "");
}

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
