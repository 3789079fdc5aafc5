#include "remote/mpi/messages/mpi_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_part.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace mpi_exchange_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

constexpr int kNumTasks = 3;

// Ends of a part: "begun with " and its merged inputs, or the reason of its
// refusal.
using Ends = std::vector<std::string>;

ExecKey KeyOf(int64_t instance) {
  return {.generation = 1, .group = 1, .instance = instance};
}

// Part that carries the number of its task.
class FakePart : public MpiPart {
 public:
  FakePart(int task, const ExecKey& key, std::vector<int> tasks, bool can_merge,
           Ends* ends)
      : key_(key),
        tasks_(std::move(tasks)),
        carried_(absl::StrCat(task)),
        can_merge_(can_merge),
        ends_(ends) {}

  const ExecKey& key() const override { return key_; }
  const std::vector<int>& tasks() const override { return tasks_; }
  bool is_in_place() const override { return false; }
  uint64_t rows_digest() const override { return 0; }
  absl::string_view carried() const override { return carried_; }
  absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> carried) const override {
    if (!can_merge_) return absl::DataLossError("it is broken");
    return absl::StrJoin(carried, "+");
  }
  void Begin(const Order& order) override {
    EXPECT_FALSE(order.makes_communicator);
    ends_->push_back(absl::StrCat("begun with ", order.merged));
  }
  void Refuse(const absl::Status& why) override {
    ends_->push_back(why.ToString());
  }

 private:
  const ExecKey key_;
  const std::vector<int> tasks_;
  const std::string carried_;
  const bool can_merge_;
  Ends* const ends_;
};

// Tasks of a job, with the notes on their way: in order from one task to
// another, otherwise in any order.
class MpiExchangeTest : public testing::Test {
 protected:
  MpiExchangeTest() { MakeTasks(); }

  void MakeTasks() {
    for (int task = 0; task < kNumTasks; ++task) {
      tasks_[task] = std::make_unique<MpiExchange>(MpiExchange::Options{
          .this_task = task, .send = [this, task](int to, const MpiNote& note) {
            EXPECT_NE(task, to);
            on_its_way_[{task, to}].push_back(note);
          }});
    }
  }

  void Add(int task, int64_t instance, std::vector<int> tasks) {
    tasks_[task]->Add(std::make_shared<FakePart>(
        task, KeyOf(instance), std::move(tasks),
        !cannot_merge_.contains(instance), &ends_[{task, instance}]));
  }
  void Withdraw(int task, int64_t instance) {
    tasks_[task]->Withdraw(KeyOf(instance), absl::AbortedError("enough"));
  }
  void CallGone(int task, int gone) {
    tasks_[task]->OnGone(gone, absl::UnavailableError("it is gone"));
  }

  const Ends& EndsOf(int task, int64_t instance) {
    return ends_[{task, instance}];
  }
  static bool HasBegun(const Ends& ends) {
    return !ends.empty() && ends[0].starts_with("begun");
  }

  void Deliver(int from, int to) {
    auto& notes = on_its_way_[{from, to}];
    ASSERT_FALSE(notes.empty());
    const MpiNote note = notes.front();
    notes.pop_front();
    tasks_[to]->OnNote(from, note);
  }

  // Delivers any due note; returns false if there is none.
  bool DeliverOne() {
    std::erase_if(on_its_way_, [](const auto& e) { return e.second.empty(); });
    if (on_its_way_.empty()) return false;
    auto next = on_its_way_.begin();
    std::advance(next, random_() % on_its_way_.size());
    const auto [from, to] = next->first;
    Deliver(from, to);
    return true;
  }
  void DeliverSome() {
    for (auto n = random_() % 4; n > 0; --n) DeliverOne();
  }
  void DeliverAll() {
    while (DeliverOne()) {
    }
  }

  void ExpectNothingIsLeft() {
    for (const auto& task : tasks_) {
      EXPECT_THAT(task->Waiting(), IsEmpty());
      EXPECT_EQ(task->num_kept(), 0u);
    }
  }

  std::array<std::unique_ptr<MpiExchange>, kNumTasks> tasks_;
  std::map<std::pair<int, int>, std::deque<MpiNote>> on_its_way_;
  std::minstd_rand random_{1};
  std::set<int64_t> cannot_merge_;                // Instances.
  std::map<std::pair<int, int64_t>, Ends> ends_;  // Keyed by task and instance.
};

const char* const kEnough = "ABORTED: enough";
const char* const kGone = "UNAVAILABLE: it is gone";

TEST_F(MpiExchangeTest, BothBeginWithTheirInputsInTheOrderOfRanks) {
  const std::vector<std::vector<int>> groups = {{0, 1}, {2, 0}, {2, 1}};
  std::vector<std::pair<int, int64_t>> arrivals;
  for (int64_t instance = 0; instance < 300; ++instance) {
    for (const int task : groups[instance % 3]) {
      arrivals.emplace_back(task, instance);
    }
  }
  std::shuffle(arrivals.begin(), arrivals.end(), random_);
  for (const auto& [task, instance] : arrivals) {
    Add(task, instance, groups[instance % 3]);
    DeliverSome();
  }
  DeliverAll();
  for (const auto& [task, instance] : arrivals) {
    const auto& tasks = groups[instance % 3];
    EXPECT_THAT(
        EndsOf(task, instance),
        ElementsAre(absl::StrCat("begun with ", tasks[0], "+", tasks[1])));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, NeitherBeginsAloneAndOneMessageOfEachIsEnough) {
  Add(0, 1, {1, 0});
  EXPECT_THAT(EndsOf(0, 1), IsEmpty());
  Add(1, 1, {1, 0});
  EXPECT_THAT(EndsOf(1, 1), IsEmpty());
  Deliver(0, 1);
  EXPECT_THAT(EndsOf(1, 1), ElementsAre("begun with 1+0"));
  EXPECT_THAT(EndsOf(0, 1), IsEmpty());
  Deliver(1, 0);
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 1+0"));
  EXPECT_FALSE(DeliverOne());
}

TEST_F(MpiExchangeTest, WhatIsWithdrawnBeginsOnBothOrOnNeither) {
  int num_begun = 0, num_refused = 0;
  for (int64_t instance = 0; instance < 4000; ++instance) {
    SCOPED_TRACE(instance);
    const std::vector<int> tasks = {2, 1};
    // Steps in any order: each task comes, and one or both withdraw.
    std::vector<std::pair<int, bool>> steps = {{1, false}, {2, false}};
    const auto who = random_() % 3;
    if (who != 0) steps.emplace_back(1, true);
    if (who != 1) steps.emplace_back(2, true);
    std::shuffle(steps.begin(), steps.end(), random_);
    for (const auto& [task, withdraws] : steps) {
      withdraws ? Withdraw(task, instance) : Add(task, instance, tasks);
      DeliverSome();
    }
    DeliverAll();
    // Both hear of it, and withdraw too.
    for (const int task : tasks) Withdraw(task, instance);
    DeliverAll();
    ASSERT_EQ(EndsOf(1, instance), EndsOf(2, instance));
    ASSERT_THAT(EndsOf(1, instance),
                ElementsAre(testing::AnyOf(kEnough, "begun with 2+1")));
    ExpectNothingIsLeft();
    ++(HasBegun(EndsOf(1, instance)) ? num_begun : num_refused);
  }
  EXPECT_GT(num_begun, 200);
  EXPECT_GT(num_refused, 200);
}

TEST_F(MpiExchangeTest, InputsThatCrossBeginThoughBothAreWithdrawn) {
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  for (const int task : {0, 1}) Withdraw(task, 1);
  Deliver(1, 0);
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
  DeliverAll();
  EXPECT_THAT(EndsOf(1, 1), ElementsAre("begun with 0+1"));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhoComesWhenTheOtherHasWithdrawnBeginsWithItOrWaits) {
  for (const int64_t instance : {1, 2}) {
    Add(0, instance, {0, 1});
    Withdraw(0, instance);
  }
  Deliver(0, 1);
  Add(1, 1, {0, 1});
  DeliverAll();
  Add(1, 2, {0, 1});
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1), ElementsAre("begun with 0+1"));
  }
  EXPECT_THAT(EndsOf(0, 2), ElementsAre(kEnough));
  EXPECT_THAT(EndsOf(1, 2), IsEmpty());
  Withdraw(1, 2);
  DeliverAll();
  EXPECT_THAT(EndsOf(1, 2), ElementsAre(kEnough));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhoWithdrawsWhatTheOtherHasBegunBegins) {
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  Deliver(0, 1);
  Withdraw(0, 1);
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1), ElementsAre("begun with 0+1"));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, NothingIsKeptOfWhatIsTakenBack) {
  Add(0, 1, {0, 1});
  DeliverAll();
  EXPECT_EQ(tasks_[1]->num_kept(), 1u);
  Withdraw(0, 1);
  Withdraw(0, 1);
  Withdraw(0, 2);  // No part waits.
  EXPECT_EQ((on_its_way_[{0, 1}].size()), 1u);
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre(kEnough));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatWasTakenBackMayComeAgain) {
  Add(0, 1, {0, 1});
  Withdraw(0, 1);
  DeliverAll();
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre(kEnough, "begun with 0+1"));
  EXPECT_THAT(EndsOf(1, 1), ElementsAre("begun with 0+1"));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatComesAgainIsNotMistakenForWhatCameBefore) {
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  Deliver(0, 1);
  Withdraw(0, 1);
  Deliver(1, 0);
  Deliver(0, 1);  // Input was used.
  Add(0, 1, {0, 1});
  Withdraw(0, 1);
  Deliver(0, 1);
  Add(1, 1, {0, 1});
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1),
                ElementsAre("begun with 0+1", "begun with 0+1"));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatCannotBeMergedEndsOnBoth) {
  cannot_merge_ = {1};
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1), ElementsAre("DATA_LOSS: it is broken"));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatWaitsForAGoneTaskEnds) {
  for (const int64_t instance : {1, 2}) Add(0, instance, {0, 1});
  Add(0, 3, {0, 2});
  Withdraw(0, 2);
  CallGone(0, 1);
  tasks_[0]->OnGone(1, absl::UnavailableError("once more"));
  Add(0, 4, {1, 0});
  for (const int64_t instance : {1, 2, 4}) {
    EXPECT_THAT(EndsOf(0, instance), ElementsAre(kGone));
  }
  // Executions with other tasks go on.
  Add(2, 3, {0, 2});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 3), ElementsAre("begun with 0+2"));
  EXPECT_THAT(tasks_[0]->Waiting(), IsEmpty());
}

TEST_F(MpiExchangeTest, NothingIsKeptOfAGoneTask) {
  Add(1, 1, {0, 1});
  Add(2, 2, {0, 2});
  DeliverAll();
  EXPECT_EQ(tasks_[0]->num_kept(), 2u);
  CallGone(0, 1);
  EXPECT_EQ(tasks_[0]->num_kept(), 1u);
  // Inputs of a living task stay.
  Add(1, 3, {0, 1});
  DeliverAll();
  EXPECT_EQ(tasks_[0]->num_kept(), 1u);
}

TEST_F(MpiExchangeTest, WhoIsLostAndGoesOnDoesNotWait) {
  Add(1, 1, {0, 1});
  DeliverAll();
  CallGone(0, 1);
  Add(1, 2, {0, 1});
  for (const int64_t instance : {1, 2}) Withdraw(1, instance);
  DeliverAll();
  for (const int64_t instance : {1, 2}) {
    EXPECT_THAT(EndsOf(1, instance), ElementsAre(kEnough));
  }
}

// Tasks come, withdraw, and call each other lost, at any time. Lost tasks go
// on.
class MpiExchangeAtRandomTest : public MpiExchangeTest {
 protected:
  void ChooseParts() {
    parts_.clear();
    for (int64_t instance = 0; instance < kNumInstances; ++instance) {
      for (const int task : TasksOf(instance)) {
        if (random_() % 8 != 0) parts_.emplace_back(task, instance);
      }
    }
    std::shuffle(parts_.begin(), parts_.end(), random_);
  }

  void RunParts() {
    lost_.clear();
    for (const auto& [task, instance] : parts_) {
      Add(task, instance, TasksOf(instance));
      DeliverSome();
      const auto& other = parts_[random_() % parts_.size()];
      if (random_() % 4 == 0) Withdraw(other.first, other.second);
      if (random_() % 40 == 0) Lose(task);
      DeliverSome();
    }
    DeliverAll();
    for (const auto& [task, instance] : parts_) Withdraw(task, instance);
    DeliverAll();
  }

  void Lose(int task) {
    const int gone = static_cast<int>((task + 1 + random_() % 2) % kNumTasks);
    CallGone(task, gone);
    lost_.emplace(task, gone);
  }

  bool HasBegunOnOneAlone(int64_t instance) {
    const auto& tasks = TasksOf(instance);
    return HasBegun(EndsOf(tasks[0], instance)) !=
           HasBegun(EndsOf(tasks[1], instance));
  }
  bool AnyIsLost(const std::vector<int>& tasks) const {
    return lost_.contains({tasks[0], tasks[1]}) ||
           lost_.contains({tasks[1], tasks[0]});
  }
  const std::vector<int>& TasksOf(int64_t instance) const {
    return groups_[instance % groups_.size()];
  }

  static constexpr int64_t kNumInstances = 12;
  const std::vector<std::vector<int>> groups_ = {{0, 1}, {2, 0}, {2, 1}};
  std::vector<std::pair<int, int64_t>> parts_;  // Tasks and instances.
  std::set<std::pair<int, int>> lost_;          // Callers and lost tasks.
};

TEST_F(MpiExchangeAtRandomTest, EachPartEndsOnceAndNothingIsLeft) {
  int num_alone = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    MakeTasks();
    ends_.clear();
    ChooseParts();
    RunParts();
    for (const auto& [task, instance] : parts_) {
      ASSERT_EQ(EndsOf(task, instance).size(), 1u);
    }
    for (int64_t instance = 0; instance < kNumInstances; ++instance) {
      if (!HasBegunOnOneAlone(instance)) continue;
      ASSERT_TRUE(AnyIsLost(TasksOf(instance)));
      ++num_alone;
    }
    // Tasks that called others lost end too.
    for (const auto& [task, gone] : lost_) CallGone(gone, task);
    ExpectNothingIsLeft();
  }
  EXPECT_GT(num_alone, 0);
}

TEST_F(MpiExchangeTest, AKeyThatWaitsIsRefusedOnceMore) {
  for (int i = 0; i < 2; ++i) Add(1, 1, {0, 1});
  EXPECT_THAT(EndsOf(1, 1),
              ElementsAre(testing::StartsWith("ALREADY_EXISTS: ")));
  Add(0, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
  EXPECT_EQ(EndsOf(1, 1).back(), "begun with 0+1");
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, ItIsKnownWhoIsWaitedFor) {
  EXPECT_EQ(tasks_[2]->Awaited(KeyOf(1)), std::nullopt);
  Add(2, 1, {2, 0});
  EXPECT_THAT(tasks_[2]->Awaited(KeyOf(1)), Optional(0));
  EXPECT_EQ(tasks_[0]->Awaited(KeyOf(1)), std::nullopt);
  Add(0, 1, {2, 0});
  EXPECT_THAT(tasks_[0]->Awaited(KeyOf(1)), Optional(2));
  DeliverAll();
  EXPECT_EQ(tasks_[0]->Awaited(KeyOf(1)), std::nullopt);
  EXPECT_EQ(tasks_[2]->Awaited(KeyOf(1)), std::nullopt);
}

// Notes of non-members are ignored.
TEST_F(MpiExchangeTest, WhoIsNoMemberDoesNotCount) {
  for (const int64_t instance : {1, 2}) Add(0, instance, {0, 1});
  Withdraw(0, 2);
  for (const int64_t instance : {1, 2}) {
    for (const auto kind :
         {MpiNote::Kind::kInput, MpiNote::Kind::kTakeBack,
          MpiNote::Kind::kTakenBack, static_cast<MpiNote::Kind>(1000)}) {
      tasks_[0]->OnNote(2, {.kind = kind, .key = KeyOf(instance)});
    }
  }
  EXPECT_EQ(tasks_[0]->Waiting().size(), 2u);
  Add(1, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
  EXPECT_THAT(EndsOf(0, 2), ElementsAre(kEnough));
}

TEST_F(MpiExchangeTest, AnAnswerThatNobodyAskedForDoesNoHarm) {
  Add(0, 1, {0, 1});
  for (const int64_t instance : {1, 2}) {
    tasks_[0]->OnNote(
        1, {.kind = MpiNote::Kind::kTakenBack, .key = KeyOf(instance)});
  }
  Add(1, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
}

}  // namespace mpi_exchange_test
}  // namespace tutti
