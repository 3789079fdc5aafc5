#include "examples/train/step_watch.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "tests/doubles/simulated_environment.h"

namespace train {
namespace {

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

}  // namespace
}  // namespace train
