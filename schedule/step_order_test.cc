#include "schedule/step_order.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "absl/algorithm/container.h"
#include "schedule/proof/symbolic.h"

namespace tutti {
namespace step_order_test {

// Random schedules that can run. Steps are made in a possible order of
// completion and wait only for steps made earlier.
class RandomGroup {
 public:
  RandomGroup(int num_ranks, int num_chunks, int num_steps, uint32_t seed)
      : num_ranks_(num_ranks), random_(seed), schedules_(num_ranks) {
    for (Schedule& schedule : schedules_) {
      schedule.num_chunks = num_chunks;
      schedule.lanes.resize(kLanes);
    }
    for (int i = 0; i < num_steps; ++i) {
      const int chunk = Below(num_chunks);
      const int count = 1 + Below(num_chunks - chunk);
      if (Below(2) == 0) {
        AddCopy(chunk, count);
      } else {
        AddTransfer(chunk, count, /*tag=*/i);
      }
    }
  }

  const std::vector<Schedule>& schedules() const { return schedules_; }

 private:
  static constexpr int kLanes = 3;

  int Below(int limit) { return static_cast<int>(random_() % limit); }

  void AddCopy(int chunk, int count) {
    Append(Below(num_ranks_), {.kind = StepKind::kCopy,
                               .into = Scratch(chunk, Below(2), count),
                               .left = Input(chunk, count)});
  }

  void AddTransfer(int chunk, int count, int tag) {
    const int from = Below(num_ranks_);
    const int to = (from + 1 + Below(num_ranks_ - 1)) % num_ranks_;
    Append(from, {.kind = StepKind::kSend,
                  .left = Input(chunk, count),
                  .peer = to,
                  .tag = tag});
    Append(to, {.kind = StepKind::kRecv,
                .into = Scratch(chunk, Below(2), count),
                .peer = from,
                .tag = tag});
  }

  void Append(int rank, Step step) {
    std::vector<Lane>& lanes = schedules_[rank].lanes;
    const int awaited = Below(kLanes);
    if (Below(3) == 0 && !lanes[awaited].empty()) {
      step.after = {awaited, Below(static_cast<int>(lanes[awaited].size()))};
    }
    lanes[Below(kLanes)].push_back(step);
  }

  const int num_ranks_;
  std::mt19937 random_;
  std::vector<Schedule> schedules_;
};

bool HasClass(const GroupPlan& plan, int step, int64_t size_class) {
  return absl::c_linear_search(plan.size_classes(step), size_class);
}

// Computes the answers of StepOrder the slow way: by the transitive closure
// over the start and the end of every step, for one size class.
class Closure {
 public:
  Closure(const GroupPlan& plan, int64_t size_class)
      : plan_(plan),
        reaches_(2 * plan.num_steps(),
                 std::vector<bool>(2 * plan.num_steps())) {
    for (int step = 0; step < plan.num_steps(); ++step) {
      AddEdges(step, HasClass(plan, step, size_class));
    }
    const size_t size = reaches_.size();
    for (size_t via = 0; via < size; ++via) {
      for (size_t from = 0; from < size; ++from) {
        if (!reaches_[from][via]) continue;
        for (size_t to = 0; to < size; ++to) {
          if (reaches_[via][to]) reaches_[from][to] = true;
        }
      }
    }
  }

  bool IsBefore(int first, int second) const {
    const bool lends = plan_.step(first).kind == StepKind::kSend;
    return EndIsBefore(first, second) ||
           (lends && EndIsBefore(plan_.partner(first), second));
  }

  bool StartIsBeforeEndOf(int step, int rank) const {
    for (int last = 0; last < plan_.num_steps(); ++last) {
      if (plan_.rank_of(last) == rank && reaches_[Start(step)][End(last)]) {
        return true;
      }
    }
    return false;
  }

 private:
  static int Start(int step) { return 2 * step; }
  static int End(int step) { return 2 * step + 1; }

  void AddEdges(int step, bool counts) {
    reaches_[Start(step)][Start(step)] = true;
    reaches_[Start(step)][End(step)] = true;
    if (step > plan_.lane(plan_.lane_of(step)).first_step) {
      reaches_[End(step - 1)][Start(step)] = true;
    }
    if (plan_.after(step) != -1) {
      reaches_[End(plan_.after(step))][Start(step)] = true;
    }
    if (counts && plan_.partner(step) != -1) {
      reaches_[Start(step)][End(plan_.partner(step))] = true;
    }
  }

  bool EndIsBefore(int first, int second) const {
    if (reaches_[End(first)][Start(second)]) return true;
    return plan_.step(second).kind == StepKind::kRecv &&
           reaches_[End(first)][Start(plan_.partner(second))];
  }

  const GroupPlan& plan_;
  std::vector<std::vector<bool>> reaches_;
};

class StepOrderTest : public testing::TestWithParam<int> {};

void CheckGroup(const GroupPlan& plan, const SymbolicRun& run) {
  StepOrder order(plan, run.completion_order);
  for (int chunk = 0; chunk < plan.memory().num_chunks; ++chunk) {
    const Closure closure(plan, chunk);
    for (size_t i = 0; i < run.completion_order.size(); ++i) {
      for (size_t j = i + 1; j < run.completion_order.size(); ++j) {
        const int first = run.completion_order[i];
        const int second = run.completion_order[j];
        if (plan.rank_of(first) != plan.rank_of(second) ||
            !HasClass(plan, first, chunk) || !HasClass(plan, second, chunk)) {
          continue;
        }
        EXPECT_EQ(order.IsBefore(first, second, chunk),
                  closure.IsBefore(first, second))
            << plan.Describe(first) << " and " << plan.Describe(second);
      }
    }
  }
}

TEST_P(StepOrderTest, AgreesWithTheTransitiveClosure) {
  const RandomGroup group(/*num_ranks=*/4, /*num_chunks=*/3, /*num_steps=*/40,
                          /*seed=*/GetParam());
  const auto plan = GroupPlan::Create(
      {.type = CollectiveType::kAllReduce, .num_ranks = 4, .num_chunks = 3},
      group.schedules());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok()) << run.status();
  CheckGroup(*plan, *run);
}

TEST_P(StepOrderTest, AwaitedRanksAgreeWithTheTransitiveClosure) {
  const RandomGroup group(/*num_ranks=*/6, /*num_chunks=*/1, /*num_steps=*/12,
                          /*seed=*/GetParam());
  const auto plan = GroupPlan::Create(
      {.type = CollectiveType::kAllReduce, .num_ranks = 6, .num_chunks = 1},
      group.schedules());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok()) << run.status();
  StepOrder order(*plan, run->completion_order);
  const Closure closure(*plan, /*size_class=*/0);
  for (int rank = 0; rank < 6; ++rank) {
    std::vector<bool> begun(6);
    begun[rank] = true;
    for (int step = 0; step < plan->num_steps(); ++step) {
      if (closure.StartIsBeforeEndOf(step, rank)) {
        begun[plan->rank_of(step)] = true;
      }
    }
    int missing = -1;
    for (int other = 5; other >= 0; --other) {
      if (!begun[other]) missing = other;
    }
    EXPECT_EQ(order.RankNotAwaitedBy(rank), missing) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StepOrderTest, testing::Range(1, 101));

}  // namespace step_order_test
}  // namespace tutti
