// Tests of collectives that MPI runs, without other processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
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
#include "remote/mpi/collectives/mpi_agreement.h"
#include "remote/mpi/collectives/mpi_communicators.h"
#include "remote/mpi/collectives/mpi_operation.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_part.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace collectives_by_mpi_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::Pair;

// --- Agreement ---------------------------------------------------------------

class FakePart;

// Tasks of a job, with the notes on their way: in order from one task to
// another, otherwise in any order.
class MpiAgreementTest : public testing::Test {
 protected:
  void MakeTasks(int num_tasks) {
    for (int task = 0; task < num_tasks; ++task) {
      tasks_.push_back(std::make_unique<MpiAgreement>(MpiAgreement::Options{
          .this_task = task, .send = [this, task](int to, const MpiNote& note) {
            EXPECT_NE(task, to);
            on_its_way_[{task, to}].push_back(note);
          }}));
    }
    begun_.resize(num_tasks);
    in_place_.resize(num_tasks);
    made_.resize(num_tasks);
    merged_.resize(num_tasks);
    refused_.resize(num_tasks);
  }

  static ExecKey KeyOf(int64_t group, int64_t instance) {
    return {.generation = 1, .group = group, .instance = instance};
  }

  void AddReady(int task, const ExecKey& key, std::vector<int> tasks);
  void Withdraw(int task, const ExecKey& key) {
    tasks_[task]->Withdraw(key, absl::AbortedError("enough"));
  }

  // Delivers any due note; returns false if there is none.
  bool DeliverOne() {
    std::erase_if(on_its_way_, [](const auto& e) { return e.second.empty(); });
    if (on_its_way_.empty()) return false;
    auto next = on_its_way_.begin();
    std::advance(next, random_() % on_its_way_.size());
    const auto [from, to] = next->first;
    const MpiNote note = next->second.front();
    next->second.pop_front();
    tasks_[to]->OnNote(from, note);
    return true;
  }
  void DeliverAll() {
    while (DeliverOne()) {
    }
  }

  std::vector<std::unique_ptr<MpiAgreement>> tasks_;
  std::map<std::pair<int, int>, std::deque<MpiNote>> on_its_way_;
  std::minstd_rand random_{1};

  // Instances by task and group, in order.
  std::vector<std::map<int64_t, std::vector<int64_t>>> begun_;
  std::vector<std::map<int64_t, std::vector<int64_t>>> made_;
  std::vector<std::vector<std::pair<ExecKey, absl::Status>>> refused_;

  // Tasks and instances whose input is their output. By task: instances that
  // have begun as if all were in place.
  std::set<std::pair<int, int64_t>> wants_in_place_;
  std::vector<std::set<int64_t>> in_place_;

  // Tasks and instances whose rows differ from the rows of the others.
  std::set<std::pair<int, int64_t>> with_other_rows_;

  // Instances that carry the numbers of their tasks; instances that cannot be
  // merged. By task: the merged data.
  std::set<int64_t> carries_, cannot_merge_;
  std::vector<std::map<int64_t, std::string>> merged_;

  friend class FakePart;
};

class FakePart : public MpiPart {
 public:
  FakePart(MpiAgreementTest* test, int task, const ExecKey& key,
           std::vector<int> tasks)
      : test_(test),
        task_(task),
        key_(key),
        tasks_(std::move(tasks)),
        carried_(test->carries_.contains(key.instance) ? absl::StrCat(task)
                                                       : "") {}

  const ExecKey& key() const override { return key_; }
  const std::vector<int>& tasks() const override { return tasks_; }
  bool is_in_place() const override {
    return test_->wants_in_place_.contains({task_, key_.instance});
  }
  uint64_t rows_digest() const override {
    return test_->with_other_rows_.contains({task_, key_.instance}) ? 2 : 1;
  }
  absl::string_view carried() const override { return carried_; }
  absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> carried) const override {
    if (test_->cannot_merge_.contains(key_.instance)) {
      return absl::DataLossError("it is broken");
    }
    return absl::StrJoin(carried, "+");
  }
  void Begin(const Order& order) override {
    if (!order.merged.empty()) {
      test_->merged_[task_][key_.instance] = std::string(order.merged);
    }
    if (order.makes_communicator) {
      test_->made_[task_][key_.group].push_back(key_.instance);
    }
    if (order.any_in_place) test_->in_place_[task_].insert(key_.instance);
    test_->begun_[task_][key_.group].push_back(key_.instance);
  }
  void Refuse(const absl::Status& why) override {
    test_->refused_[task_].emplace_back(key_, why);
  }

 private:
  MpiAgreementTest* const test_;
  const int task_;
  const ExecKey key_;
  const std::vector<int> tasks_;
  const std::string carried_;
};

void MpiAgreementTest::AddReady(int task, const ExecKey& key,
                                std::vector<int> tasks) {
  tasks_[task]->AddReady(
      std::make_shared<FakePart>(this, task, key, std::move(tasks)));
}

TEST_F(MpiAgreementTest, ExecutionsBeginInOneOrderOnAllMembers) {
  MakeTasks(4);
  const std::vector<std::vector<int>> groups = {
      {0, 1, 2, 3}, {3, 1}, {2, 0, 3}, {1}, {3, 2, 1, 0}};
  constexpr int kNumInstances = 20;
  for (unsigned seed = 0; seed < 50; ++seed) {
    random_.seed(seed + 1);
    for (auto& begun : begun_) begun.clear();
    std::vector<std::pair<int, ExecKey>> arrivals;
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const int task : groups[group]) {
        for (int i = 0; i < kNumInstances; ++i) {
          arrivals.emplace_back(task, KeyOf(static_cast<int64_t>(group), i));
        }
      }
    }
    std::shuffle(arrivals.begin(), arrivals.end(), random_);
    for (const auto& [task, key] : arrivals) {
      AddReady(task, key, groups[key.group]);
      for (auto n = random_() % 4; n > 0; --n) DeliverOne();
    }
    DeliverAll();
    for (size_t group = 0; group < groups.size(); ++group) {
      const auto& wanted = begun_[groups[group][0]][group];
      EXPECT_EQ(wanted.size(), kNumInstances);
      for (const int task : groups[group]) {
        EXPECT_EQ(begun_[task][group], wanted);
      }
    }
  }
}

TEST_F(MpiAgreementTest, AllMembersBeginInPlaceOrNone) {
  MakeTasks(3);
  wants_in_place_ = {{0, 1}, {2, 2}, {1, 3}, {2, 3}, {1, 5}};
  for (int64_t instance = 0; instance < 5; ++instance) {
    for (const int task : {2, 0, 1})
      AddReady(task, KeyOf(1, instance), {0, 1, 2});
    DeliverAll();
  }
  AddReady(1, KeyOf(2, 5), {1});
  DeliverAll();
  EXPECT_THAT(in_place_[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(in_place_[1], ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(in_place_[2], ElementsAre(1, 2, 3));
}

TEST_F(MpiAgreementTest, TheFirstToBeginMakesTheCommunicatorAndNoOther) {
  MakeTasks(3);
  for (int64_t instance = 0; instance < 3; ++instance) {
    for (int task = 0; task < 3; ++task) {
      AddReady(task, KeyOf(5, instance), {2, 1, 0});
    }
  }
  DeliverAll();
  for (int task = 0; task < 3; ++task) {
    EXPECT_THAT(made_[task][5], ElementsAre(begun_[2][5][0]));
  }
  for (int task = 0; task < 3; ++task) tasks_[task]->ForgetGroup(KeyOf(5, 0));
  for (int task = 0; task < 3; ++task) AddReady(task, KeyOf(5, 9), {2, 1, 0});
  DeliverAll();
  EXPECT_THAT(made_[0][5], ElementsAre(begun_[2][5][0], 9));
}

TEST_F(MpiAgreementTest, WhatIsCarriedComesToAllMergedByRank) {
  MakeTasks(3);
  carries_ = {1, 3, 5};
  for (int64_t instance = 0; instance < 4; ++instance) {
    for (const int task : {0, 2, 1}) {
      AddReady(task, KeyOf(1, instance), {2, 0, 1});
    }
  }
  AddReady(1, KeyOf(2, 5), {1});
  DeliverAll();
  EXPECT_THAT(merged_[0], ElementsAre(Pair(1, "2+0+1"), Pair(3, "2+0+1")));
  EXPECT_THAT(merged_[1],
              ElementsAre(Pair(1, "2+0+1"), Pair(3, "2+0+1"), Pair(5, "1")));
  EXPECT_THAT(merged_[2], merged_[0]);
}

TEST_F(MpiAgreementTest, WhatIsCarriedNeedsNoCommunicator) {
  MakeTasks(3);
  carries_ = {1};
  for (const int task : {2, 1, 0}) AddReady(task, KeyOf(1, 1), {1, 2, 0});
  DeliverAll();
  EXPECT_THAT(begun_[2][1], ElementsAre(1));
  EXPECT_THAT(made_[2][1], IsEmpty());
  EXPECT_EQ(tasks_[1]->num_led(), 0u);
  // The next execution makes it.
  for (const int task : {2, 1, 0}) AddReady(task, KeyOf(1, 2), {1, 2, 0});
  DeliverAll();
  EXPECT_THAT(made_[2][1], ElementsAre(2));
}

TEST_F(MpiAgreementTest, WhatCannotBeMergedEndsOnAllMembers) {
  MakeTasks(3);
  carries_ = cannot_merge_ = {1};
  for (int task = 0; task < 3; ++task) {
    AddReady(task, KeyOf(1, 1), {1, 0, 2});
  }
  DeliverAll();
  for (int task = 0; task < 3; ++task) {
    EXPECT_THAT(begun_[task][1], IsEmpty());
    EXPECT_THAT(
        refused_[task],
        ElementsAre(Pair(KeyOf(1, 1), absl::DataLossError("it is broken"))));
    EXPECT_EQ(tasks_[task]->num_waiting(), 0u);
  }
  EXPECT_EQ(tasks_[1]->num_led(), 0u);
}

TEST_F(MpiAgreementTest, WhereRowsDifferItEndsOnAllMembersAndOthersBegin) {
  MakeTasks(3);
  for (const int64_t instance : {1, 3}) with_other_rows_.emplace(2, instance);
  const std::vector<int> tasks = {1, 0, 2};
  for (const int64_t instance : {1, 2, 3}) {
    for (const int task : tasks) AddReady(task, KeyOf(1, instance), tasks);
    DeliverAll();
  }
  for (const int task : tasks) {
    // The second execution makes the communicator, not the first.
    EXPECT_THAT(begun_[task][1], ElementsAre(2));
    EXPECT_THAT(made_[task][1], ElementsAre(2));
    const auto is_about_rank_2 =
        IsInvalidArgument("rank 2 gives other rows than rank 0");
    EXPECT_THAT(refused_[task],
                ElementsAre(Pair(KeyOf(1, 1), is_about_rank_2),
                            Pair(KeyOf(1, 3), is_about_rank_2)));
    EXPECT_EQ(tasks_[task]->num_waiting(), 0u);
  }
}

TEST_F(MpiAgreementTest, TaskZeroGivesLeaveToOneAtATime) {
  MakeTasks(3);
  for (const int task : {1, 2}) {
    AddReady(task, KeyOf(1, 0), {1, 2});
    AddReady(task, KeyOf(2, 0), {2, 1});
  }
  int num_leaves = 0, num_returned = 0;
  const auto count = [&](MpiNote::Kind kind, int from, int to) {
    int number = 0;
    for (const MpiNote& note : on_its_way_[{from, to}]) {
      number += note.kind == kind ? 1 : 0;
    }
    return number;
  };
  do {
    num_leaves =
        count(MpiNote::Kind::kLeave, 0, 1) + count(MpiNote::Kind::kLeave, 0, 2);
    num_returned = count(MpiNote::Kind::kReturnLeave, 1, 0) +
                   count(MpiNote::Kind::kReturnLeave, 2, 0);
    EXPECT_LE(num_leaves + num_returned, 1);
  } while (DeliverOne());
  EXPECT_THAT(begun_[1][2], ElementsAre(0));
  EXPECT_THAT(begun_[2][1], ElementsAre(0));
}

TEST_F(MpiAgreementTest, NothingBeginsBeforeAllAreReady) {
  MakeTasks(3);
  AddReady(0, KeyOf(1, 0), {0, 1, 2});
  AddReady(2, KeyOf(1, 0), {0, 1, 2});
  DeliverAll();
  for (int task = 0; task < 3; ++task) EXPECT_THAT(begun_[task][1], IsEmpty());
  AddReady(1, KeyOf(1, 0), {0, 1, 2});
  DeliverAll();
  for (int task = 0; task < 3; ++task) {
    EXPECT_THAT(begun_[task][1], ElementsAre(0));
  }
}

TEST_F(MpiAgreementTest, ItIsKnownWhoIsWaitedFor) {
  MakeTasks(4);
  const ExecKey key = KeyOf(1, 0);
  EXPECT_EQ(tasks_[2]->Awaited(key), std::nullopt);
  AddReady(2, key, {2, 3, 1});
  AddReady(1, key, {2, 3, 1});
  EXPECT_THAT(tasks_[2]->Awaited(key), Optional(ElementsAre(3, 1)));
  DeliverAll();
  EXPECT_THAT(tasks_[2]->Awaited(key), Optional(ElementsAre(3)));
  EXPECT_THAT(tasks_[1]->Awaited(key), Optional(ElementsAre(2)));
  EXPECT_EQ(tasks_[3]->Awaited(key), std::nullopt);
  AddReady(3, key, {2, 3, 1});
  while (tasks_[2]->num_led() < 2) DeliverOne();
  EXPECT_THAT(tasks_[2]->Awaited(key), Optional(IsEmpty()));  // For leave.
  DeliverAll();
  for (const auto& task : tasks_) EXPECT_EQ(task->Awaited(key), std::nullopt);
}

TEST_F(MpiAgreementTest, WhoIsNoMemberDoesNotCount) {
  MakeTasks(4);
  AddReady(0, KeyOf(1, 0), {0, 1, 2});
  AddReady(1, KeyOf(1, 0), {0, 1, 2});
  tasks_[0]->OnNote(3, {.kind = MpiNote::Kind::kReady, .key = KeyOf(1, 0)});
  DeliverAll();
  EXPECT_THAT(begun_[0][1], IsEmpty());
  AddReady(2, KeyOf(1, 0), {0, 1, 2});
  DeliverAll();
  EXPECT_THAT(begun_[0][1], ElementsAre(0));
}

TEST_F(MpiAgreementTest, WhatIsWithdrawnBeginsEverywhereOrNowhere) {
  MakeTasks(3);
  const std::vector<int> all = {1, 2, 0};
  int num_begun = 0, num_refused = 0;
  for (int64_t instance = 0; instance < 2000; ++instance) {
    const ExecKey key = KeyOf(1, instance);
    if (instance % 2 == 0) carries_.insert(instance);
    for (const int task : {2, 0, 1}) {
      AddReady(task, key, all);
      for (auto n = random_() % 3; n > 0; --n) DeliverOne();
    }
    const int first = static_cast<int>(random_() % 3);
    Withdraw(first, key);
    DeliverAll();
    std::set<bool> has_begun;
    for (int task = 0; task < 3; ++task) {
      auto& begun = begun_[task][1];
      has_begun.insert(!begun.empty() && begun.back() == instance);
    }
    ASSERT_EQ(has_begun.size(), 1u) << "instance " << instance;
    // The others hear of it, and withdraw too.
    for (int task = 0; task < 3; ++task) Withdraw(task, key);
    DeliverAll();
    for (int task = 0; task < 3; ++task) {
      EXPECT_EQ(tasks_[task]->num_waiting(), 0u);
      const bool is_refused =
          !refused_[task].empty() && refused_[task].back().first == key;
      EXPECT_NE(is_refused, *has_begun.begin());
      if (!is_refused) continue;
      EXPECT_EQ(refused_[task].back().second, absl::AbortedError("enough"));
    }
    ++(*has_begun.begin() ? num_begun : num_refused);
  }
  EXPECT_GT(num_begun, 100);
  EXPECT_GT(num_refused, 100);
}

TEST_F(MpiAgreementTest, WhatAGoneTaskLeadsOrIsInEnds) {
  MakeTasks(3);
  for (const int task : {1, 2}) {
    AddReady(task, KeyOf(1, 0), {0, 1, 2});
    AddReady(task, KeyOf(2, 0), {1, 2, 0});
    AddReady(task, KeyOf(3, 0), {1, 2});
  }
  const auto gone = absl::UnavailableError("it is gone");
  for (const int task : {1, 2}) tasks_[task]->OnGone(0, gone);
  for (const int task : {1, 2}) Withdraw(task, KeyOf(2, 0));
  DeliverAll();
  for (const int task : {1, 2}) {
    EXPECT_EQ(tasks_[task]->num_waiting(), task == 1 ? 0u : 1u);
    AddReady(task, KeyOf(1, 1), {0, 1, 2});
    EXPECT_EQ(refused_[task].back().second, gone);
  }
}

TEST_F(MpiAgreementTest, WhoIsLostAndGoesOnHoldsUpNobody) {
  MakeTasks(4);
  tasks_[0]->OnGone(2, absl::UnavailableError("it is silent"));
  for (const int task : {2, 3}) AddReady(task, KeyOf(1, 0), {2, 3});
  DeliverAll();
  for (const int task : {0, 1}) AddReady(task, KeyOf(2, 0), {0, 1});
  DeliverAll();
  EXPECT_THAT(begun_[1][2], ElementsAre(0));
  // The lost task does not wait either.
  AddReady(2, KeyOf(3, 0), {0, 1, 2});
  Withdraw(2, KeyOf(3, 0));
  DeliverAll();
  ASSERT_EQ(refused_[2].size(), 1u);
  EXPECT_EQ(refused_[2][0].second, absl::AbortedError("enough"));
}

TEST_F(MpiAgreementTest, NothingIsKeptOfWhoIsLostAndGoesOn) {
  MakeTasks(3);
  tasks_[0]->OnGone(2, absl::UnavailableError("it is silent"));
  AddReady(2, KeyOf(1, 0), {0, 1, 2});
  DeliverAll();
  EXPECT_EQ(tasks_[0]->num_led(), 0u);
}

TEST_F(MpiAgreementTest, NothingIsKeptOfAGroupThatEnds) {
  MakeTasks(2);
  for (int task = 0; task < 2; ++task) AddReady(task, KeyOf(1, 0), {1, 0});
  // Withdraw before task 0 grants leave.
  while (tasks_[1]->num_led() < 2) DeliverOne();
  Withdraw(1, KeyOf(1, 0));
  Withdraw(0, KeyOf(1, 0));
  DeliverAll();
  EXPECT_THAT(begun_[1][1], IsEmpty());
  tasks_[1]->ForgetGroup(KeyOf(1, 0));
  EXPECT_EQ(tasks_[1]->num_led(), 0u);
}

TEST_F(MpiAgreementTest, AKeyThatWaitsIsRefusedOnceMore) {
  MakeTasks(2);
  AddReady(1, KeyOf(1, 0), {0, 1});
  AddReady(1, KeyOf(1, 0), {0, 1});
  ASSERT_EQ(refused_[1].size(), 1u);
  EXPECT_THAT(refused_[1][0].second, IsAlreadyExists());
  AddReady(0, KeyOf(1, 0), {0, 1});
  DeliverAll();
  EXPECT_THAT(begun_[1][1], ElementsAre(0));
}

// Notes of a task that does not lead are ignored.
TEST_F(MpiAgreementTest, WhoDoesNotLeadCannotMakeItBegin) {
  MakeTasks(3);
  AddReady(2, KeyOf(1, 0), {0, 1, 2});
  for (const auto kind : {MpiNote::Kind::kBegin, MpiNote::Kind::kMakeAndBegin,
                          MpiNote::Kind::kWithdrawn, MpiNote::Kind::kLeave,
                          static_cast<MpiNote::Kind>(1000)}) {
    tasks_[2]->OnNote(1, {.kind = kind, .key = KeyOf(1, 0)});
  }
  EXPECT_EQ(tasks_[2]->num_waiting(), 1u);
  EXPECT_THAT(begun_[2][1], IsEmpty());
  EXPECT_THAT(refused_[2], IsEmpty());
}

// --- Operation ---------------------------------------------------------------

constexpr int kGroupSize = 4;
constexpr int64_t kTooMany = int64_t{1} << 31;

absl::Status CheckOf(CollectiveType type, int64_t num_elements) {
  return MpiOperation::Check(
      {.type = type, .shape = TensorShape::Vector(num_elements)}, kGroupSize);
}

auto IsTooMany(int rank, int64_t num_elements) {
  return IsInvalidArgument(
      absl::StrCat("rank ", rank, " has ", num_elements, " elements"),
      "choose another implementation");
}

TEST(MpiOperationTest, BlocksHaveNoMoreElementsThanAnIntCounts) {
  static_assert(kTooMany - 1 == std::numeric_limits<int>::max());
  for (const CollectiveType type :
       {CollectiveType::kReduceScatter, CollectiveType::kAllToAll}) {
    EXPECT_THAT(CheckOf(type, kTooMany - kGroupSize), IsOk());
    EXPECT_THAT(CheckOf(type, kTooMany), IsTooMany(0, kTooMany));
  }
  const CollectiveType gather = CollectiveType::kAllGather;
  EXPECT_THAT(CheckOf(gather, kTooMany / kGroupSize - 1), IsOk());
  EXPECT_THAT(CheckOf(gather, kTooMany / kGroupSize), IsTooMany(0, kTooMany));
}

// Only rank 2 receives as many.
TEST(MpiOperationTest, NoMemberHasMoreWhereTheyDiffer) {
  CollInstanceParams instance{.type = CollectiveType::kAllToAll,
                              .shape = *TensorShape::Create({4, 1 << 29}),
                              .rows = {0, 1, 1, 0,  //
                                       0, 1, 1, 1,  //
                                       1, 0, 1, 0,  //
                                       1, 0, 0, 1}};
  EXPECT_THAT(MpiOperation::Check(instance, kGroupSize), IsOk());
  instance.rows[4 * 3 + 2] = 1;
  EXPECT_THAT(MpiOperation::Check(instance, kGroupSize),
              IsTooMany(2, kTooMany));
}

TEST(MpiOperationTest, WhatGoesInPiecesHasAnyNumberOfElements) {
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kReduce,
        CollectiveType::kBroadcast}) {
    EXPECT_THAT(CheckOf(type, int64_t{1} << 40), IsOk());
  }
}

TEST(MpiOperationTest, WhatItDoesNotDoIsRefused) {
  EXPECT_THAT(CheckOf(CollectiveType::kPermute, 1),
              IsInvalidArgument("permute"));
}

// Operation of one member, on tensors of uint8.
class Member {
 public:
  Member(CollInstanceParams instance, int group_size, int64_t num_bytes) {
    CollGroupParams group;
    group.members.resize(static_cast<size_t>(group_size));
    params_.group = std::make_shared<const CollGroupParams>(std::move(group));
    instance.dtype = DType::kUint8;
    instance.shape = TensorShape::Vector(num_bytes);
    params_.instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
    context_.params = &params_;
    context_.input = Zeros(num_bytes);
    context_.output = Zeros(num_bytes);
    operation_ = std::make_unique<MpiOperation>(context_);
  }

  MpiOperation& operation() { return *operation_; }
  std::string output() const {
    return {reinterpret_cast<const char*>(context_.output.data()),
            context_.output.size_bytes()};
  }

 private:
  static Tensor Zeros(int64_t num_bytes) {
    Tensor made =
        *Tensor::Allocate(DType::kUint8, TensorShape::Vector(num_bytes));
    std::fill_n(made.mutable_data(), made.size_bytes(), std::byte{0});
    return made;
  }

  CollectiveParams params_;
  CollectiveContext context_;
  std::unique_ptr<MpiOperation> operation_;
};

size_t SmallBytes(CollInstanceParams instance, int group_size,
                  int64_t num_bytes) {
  return Member(std::move(instance), group_size, num_bytes)
      .operation()
      .small_input()
      .size();
}

TEST(MpiOperationTest, SmallReductionsNeedNoMpi) {
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kReduce}) {
    EXPECT_EQ(SmallBytes({.type = type}, 2, 1), 1u);
    EXPECT_EQ(SmallBytes({.type = type}, 2, 4096), 4096u);
    EXPECT_EQ(SmallBytes({.type = type}, 1, 4097), 0u);
    // Total: 8 KiB.
    EXPECT_EQ(SmallBytes({.type = type}, 8, 1024), 1024u);
    EXPECT_EQ(SmallBytes({.type = type}, 8, 1025), 0u);
  }
}

TEST(MpiOperationTest, OtherSmallCollectivesAndMergeOpsDo) {
  for (const CollectiveType type :
       {CollectiveType::kAllGather, CollectiveType::kBroadcast,
        CollectiveType::kReduceScatter, CollectiveType::kAllToAll}) {
    EXPECT_EQ(SmallBytes({.type = type}, 2, 2), 0u);
  }
  CollInstanceParams custom;
  custom.merge_op =
      *MergeOp::Custom({.name = "nothing",
                        .commutative = true,
                        .apply = [](DType, const void*, const void*, void*,
                                    int64_t) { return absl::OkStatus(); }});
  EXPECT_EQ(SmallBytes(custom, 2, 2), 0u);
}

TEST(MpiOperationTest, SmallInputsAreMergedAndTheFinalOpComesLast) {
  CollInstanceParams instance;
  instance.final_op = FinalOp::DivideByGroupSize();
  Member member(instance, 3, 2);
  const auto merged = member.operation()
                          .Merge({"\1\2", "\3\4", absl::string_view("\5\0", 2)})
                          .value();
  EXPECT_EQ(merged, "\x9\x6");
  EXPECT_THAT(member.operation().FinishMerged(merged), IsOk());
  EXPECT_EQ(member.output(), "\x3\x2");
}

// Inputs of another process may be wrong.
TEST(MpiOperationTest, SmallInputsOfAnotherLengthAreAnError) {
  Member member(CollInstanceParams(), 3, 2);
  EXPECT_THAT(member.operation().Merge({"ab", "abc", "ab"}).status(),
              IsInternal("rank 1 sent 3 bytes, not 2"));
  EXPECT_THAT(member.operation().FinishMerged("abc"),
              IsInternal("rank 0 sent 3 bytes, not 2"));
  EXPECT_EQ(member.output(), std::string(2, '\0'));
}

// Without MPI no communicator is made.
TEST(MpiCommunicatorsTest, AGroupThatHasNoneEndsAtOnce) {
  std::vector<MpiNote::Kind> sent;
  std::vector<ExecKey> freed;
  MpiCommunicators communicators(
      {.send = [&](int /*task*/,
                   const MpiNote& note) { sent.push_back(note.kind); },
       .on_free = [&](const ExecKey& key) { freed.push_back(key); }});
  const ExecKey key{.generation = 1, .group = 2};
  communicators.Release(key);
  EXPECT_THAT(freed, ElementsAre(key));
  EXPECT_THAT(sent, IsEmpty());
}

}  // namespace collectives_by_mpi_test
}  // namespace tutti
