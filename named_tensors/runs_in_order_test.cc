#include "named_tensors/runs_in_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "tutti/environment.h"

namespace tutti {
namespace runs_in_order_test {

using ::testing::ElementsAre;
using Ended = absl::AnyInvocable<void() &&>;

class RunsInOrderTest : public testing::Test {
 protected:
  // Adds a run that ends when the test ends it.
  void Add(int which) {
    runs_->Add([this, which](Ended ended) {
      begun_.push_back(which);
      under_way_.push_back(std::move(ended));
    });
  }
  void EndOne() {
    Ended ended = std::move(under_way_.front());
    under_way_.pop_front();
    std::move(ended)();
  }

  std::vector<int> begun_;
  std::deque<Ended> under_way_;
  std::shared_ptr<RunsInOrder> runs_ = std::make_shared<RunsInOrder>();
};

TEST_F(RunsInOrderTest, TheNextBeginsWhenTheOneBeforeHasEnded) {
  for (int i = 1; i <= 3; ++i) Add(i);
  EXPECT_THAT(begun_, ElementsAre(1));
  EndOne();
  EXPECT_THAT(begun_, ElementsAre(1, 2));
  Add(4);
  EndOne();
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3));
  EndOne();
  EndOne();
  Add(5);
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3, 4, 5));
  EndOne();
}

TEST_F(RunsInOrderTest, AllRunsEndThoughTheirOwnerIsGone) {
  for (int i = 1; i <= 3; ++i) Add(i);
  runs_ = nullptr;
  for (int i = 1; i <= 3; ++i) EndOne();
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3));
}

TEST_F(RunsInOrderTest, RunsThatEndAtOnceNeedNoStack) {
  Add(0);
  int num_runs = 0;
  for (int i = 0; i < 1000000; ++i) {
    runs_->Add([&num_runs](Ended ended) {
      ++num_runs;
      std::move(ended)();
    });
  }
  EndOne();
  EXPECT_EQ(num_runs, 1000000);
}

TEST_F(RunsInOrderTest, RunsThatEndOnOtherThreadsAreOneAtATime) {
  constexpr int kNumRuns = 1000;
  const DefaultEnvironment environment(/*num_workers=*/2);
  BlockingCounter left(kNumRuns);
  std::vector<int> order, wanted;  // Not guarded.
  for (int i = 0; i < kNumRuns; ++i) {
    wanted.push_back(i);
    runs_->Add([&, i](Ended ended) {
      environment.get().queue->Schedule(
          [&, i, ended = std::move(ended)]() mutable {
            order.push_back(i);
            std::move(ended)();
            left.DecrementCount();
          });
    });
  }
  left.Wait();
  EXPECT_EQ(order, wanted);
}

}  // namespace runs_in_order_test
}  // namespace tutti
