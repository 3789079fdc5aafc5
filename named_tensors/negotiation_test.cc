#include "named_tensors/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/doubles/status_matchers.h"

namespace {

int64_t num_bytes = 0;  // Allocated by the only thread of this test.

void* Allocate(size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  num_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

void Free(void* memory) {
  num_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kStart = absl::FromUnixSeconds(1000);

TensorRequest Rows(int64_t num_rows) {
  return {.name = "rows",
          .type = CollectiveType::kAllGather,
          .shape = *TensorShape::Create({num_rows, 2})};
}

TensorRequest Reduction(std::string name, int64_t num_elements = 4) {
  return {.name = std::move(name),
          .shape = TensorShape::Vector(num_elements),
          .merge_op = "sum"};
}

// Adds the request, with this number, of ranks 0 and 1.
void AddOnBoth(Negotiation& negotiation, uint64_t number,
               const TensorRequest& request) {
  for (int rank : {0, 1}) {
    ASSERT_THAT(negotiation.Add(rank, number, request, kStart), IsOk());
  }
}

TEST(NegotiationTest, NothingIsDecidedBeforeAllRanksHaveAsked) {
  Negotiation negotiation({.num_ranks = 2});
  ASSERT_THAT(negotiation.Add(1, 7, Reduction("x"), kStart), IsOk());
  EXPECT_FALSE(negotiation.has_ready());
  EXPECT_THAT(negotiation.TakeDecisions(), IsEmpty());
  ASSERT_THAT(negotiation.Add(0, 3, Reduction("x"), kStart), IsOk());
  EXPECT_EQ(negotiation.ready_bytes(), 16);
  const auto decisions = negotiation.TakeDecisions();
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].status, IsOk());
  EXPECT_THAT(decisions[0].requests,
              ElementsAre(ElementsAre(3), ElementsAre(7)));
  EXPECT_FALSE(negotiation.has_ready());
  EXPECT_EQ(negotiation.num_waiting(), 0u);
}

TEST(NegotiationTest, ARankAsksForANameOnceUntilItIsDecided) {
  Negotiation negotiation({.num_ranks = 2});
  const auto add = [&](int rank) {
    return negotiation.Add(rank, 1, Reduction("x"), kStart);
  };
  ASSERT_THAT(add(0), IsOk());
  EXPECT_EQ(add(0).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_THAT(add(1), IsOk());
  EXPECT_EQ(add(1).code(), absl::StatusCode::kAlreadyExists);
  negotiation.TakeDecisions();
  EXPECT_THAT(add(1), IsOk());
}

TEST(NegotiationTest, EqualCollectivesAreExecutionsOfOneInstance) {
  Negotiation negotiation({.num_ranks = 1, .fusion_bytes = 0});
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_THAT(
        negotiation.Add(0, 1, Reduction(name, *name == 'c' ? 5 : 4), kStart),
        IsOk());
  }
  const auto decisions = negotiation.TakeDecisions();
  ASSERT_THAT(decisions, SizeIs(3));
  EXPECT_EQ(decisions[0].instance, decisions[1].instance);
  EXPECT_EQ(decisions[0].execution, 0u);
  EXPECT_EQ(decisions[1].execution, 1u);
  EXPECT_NE(decisions[2].instance, decisions[0].instance);
  EXPECT_EQ(decisions[2].execution, 0u);
}

TEST(NegotiationTest, FusesOneTypeAndOneMergeOpUpToTheThreshold) {
  Negotiation negotiation({.num_ranks = 1, .fusion_bytes = 40});
  uint64_t number = 0;
  const auto add = [&](TensorRequest request) {
    ASSERT_THAT(negotiation.Add(0, ++number, std::move(request), kStart),
                IsOk());
  };
  add(Reduction("1"));  // 16 bytes.
  TensorRequest max = Reduction("2");
  max.merge_op = "max";
  add(max);
  add(Reduction("3"));
  add({.name = "4",
       .type = CollectiveType::kAllGather,
       .shape = TensorShape::Vector(1)});
  add(Reduction("5"));      // Does not fit with 1 and 3.
  add(Reduction("6", 10));  // Equals the threshold.
  add(Reduction("7", 0));
  std::vector<std::vector<uint64_t>> runs;
  for (const auto& decision : negotiation.TakeDecisions()) {
    EXPECT_THAT(decision.status, IsOk());
    EXPECT_EQ(decision.fused_elements > 0, decision.requests[0].size() > 1);
    EXPECT_EQ(decision.slots.size(), decision.requests[0].size());
    runs.push_back(decision.requests[0]);
  }
  EXPECT_THAT(runs,
              ElementsAre(ElementsAre(1, 3), ElementsAre(2), ElementsAre(4),
                          ElementsAre(5, 7), ElementsAre(6)));
}

TEST(NegotiationTest, FusesNoTwoFinalOpsAndNoOtherCollectives) {
  Negotiation negotiation({.num_ranks = 1});
  uint64_t number = 0;
  const auto add = [&](TensorRequest request) {
    request.name = std::to_string(++number);
    ASSERT_THAT(negotiation.Add(0, number, std::move(request), kStart), IsOk());
  };
  TensorRequest average = Reduction("");
  average.final_op = "divide_by_group_size";
  TensorRequest scatter = Reduction("");
  scatter.type = CollectiveType::kReduceScatter;
  for (int i = 0; i < 2; ++i) {
    add(Reduction(""));
    add(average);
    add(scatter);
  }
  std::vector<std::vector<uint64_t>> runs;
  for (const auto& decision : negotiation.TakeDecisions()) {
    runs.push_back(decision.requests[0]);
  }
  EXPECT_THAT(runs, ElementsAre(ElementsAre(1, 4), ElementsAre(2, 5),
                                ElementsAre(3), ElementsAre(6)));
}

TEST(NegotiationTest, OtherCollectivesAreExecutionsOfFewInstances) {
  const auto request = [](CollectiveType type, std::vector<int64_t> dims) {
    TensorRequest made{
        .name = "x", .type = type, .shape = *TensorShape::Create(dims)};
    if (type == CollectiveType::kReduceScatter) made.merge_op = "sum";
    return made;
  };
  TensorRequest other_root = request(CollectiveType::kBroadcast, {6, 4});
  other_root.root = 1;
  TensorRequest average = request(CollectiveType::kReduceScatter, {6, 4});
  average.final_op = "divide_by_group_size";
  const std::vector<TensorRequest> requests = {
      request(CollectiveType::kBroadcast, {6, 4}), other_root,
      request(CollectiveType::kReduceScatter, {6, 4}), average,
      request(CollectiveType::kAllToAll, {6, 4})};
  for (const bool has_room : {true, false}) {
    Negotiation negotiation(
        {.num_ranks = 2, .max_exact_entries = has_room ? 100u : 0u});
    std::set<InstanceKey> instances;
    for (uint64_t execution = 0; execution < 3; ++execution) {
      for (const TensorRequest& one : requests) {
        AddOnBoth(negotiation, 1, one);
        const Negotiation::Decision made = negotiation.TakeDecisions().at(0);
        EXPECT_THAT(made.status, IsOk());
        EXPECT_EQ(made.execution, execution);
        instances.insert(made.instance);
        const int64_t part = HasRankBlocks(one.type) ? 12 : 24;
        const bool in_parts = !has_room && !ExchangesBlocks(one.type);
        EXPECT_EQ(made.fused_elements, in_parts ? part : 0) << Name(one.type);
      }
    }
    EXPECT_EQ(instances.size(), requests.size());
  }
}

TEST(NegotiationTest, BlocksThatDifferRunInPartsIfThereIsNoRoom) {
  for (const size_t room : {2u, 3u}) {  // An instance, and rows of two ranks.
    Negotiation negotiation({.num_ranks = 2, .max_exact_entries = room});
    AddOnBoth(negotiation, 1,
              {.name = "x",
               .type = CollectiveType::kReduceScatter,
               .shape = *TensorShape::Create({5, 2}),
               .merge_op = "sum"});
    EXPECT_EQ(negotiation.TakeDecisions().at(0).fused_elements,
              room == 3 ? 0 : 3 * 2);
  }
}

TEST(NegotiationTest, EachRankHearsHowManyRowsItGetsFromEach) {
  Negotiation negotiation({.num_ranks = 2});
  TensorRequest request = Rows(5);
  request.type = CollectiveType::kAllToAll;
  request.send_rows = {1, 4};
  ASSERT_THAT(negotiation.Add(0, 1, request, kStart), IsOk());
  request.send_rows = {3, 2};
  ASSERT_THAT(negotiation.Add(1, 1, request, kStart), IsOk());
  const Negotiation::Decision made = negotiation.TakeDecisions().at(0);
  EXPECT_THAT(made.status, IsOk());
  EXPECT_THAT(made.received_rows,
              ElementsAre(ElementsAre(1, 3), ElementsAre(4, 2)));
  EXPECT_EQ(made.fused_elements, 0);
}

TEST(NegotiationTest, WhatWouldBeginTooManyInstancesStaysReady) {
  for (const bool fuses : {false, true}) {
    SCOPED_TRACE(fuses);
    Negotiation negotiation({.num_ranks = 1, .fusion_bytes = fuses ? 100 : 0});
    uint64_t number = 0;
    const auto add = [&](const std::string& name, int64_t num_elements) {
      return negotiation.Add(0, ++number, Reduction(name, num_elements),
                             kStart);
    };
    ASSERT_THAT(add("known", 30), IsOk());
    ASSERT_THAT(negotiation.TakeDecisions(1), SizeIs(1));
    // Each decision stays alone.
    ASSERT_THAT(add("a", 31), IsOk());
    ASSERT_THAT(add("known", 30), IsOk());
    ASSERT_THAT(add("b", 32), IsOk());
    ASSERT_THAT(add("c", 33), IsOk());
    EXPECT_THAT(negotiation.TakeDecisions(0), IsEmpty());
    EXPECT_EQ(negotiation.ready_bytes(), 4 * (31 + 30 + 32 + 33));

    const auto first = negotiation.TakeDecisions(2);
    ASSERT_THAT(first, SizeIs(3));
    EXPECT_TRUE(first[0].begins_instance);
    EXPECT_FALSE(first[1].begins_instance);
    EXPECT_TRUE(first[2].begins_instance);
    EXPECT_TRUE(negotiation.has_ready());
    EXPECT_EQ(negotiation.ready_bytes(), 4 * 33);
    EXPECT_THAT(add("a", 31), IsOk());
    EXPECT_EQ(add("c", 33).code(), absl::StatusCode::kAlreadyExists);

    const auto second = negotiation.TakeDecisions(2);
    ASSERT_THAT(second, SizeIs(2));
    EXPECT_THAT(second[0].requests, ElementsAre(ElementsAre(5)));
    EXPECT_THAT(second[1].requests, ElementsAre(ElementsAre(6)));
    EXPECT_FALSE(negotiation.has_ready());
    EXPECT_EQ(negotiation.ready_bytes(), 0);
    EXPECT_THAT(add("c", 33), IsOk());
  }
}

TEST(NegotiationTest, AnInstanceIsNewUntilARunOfItWentWell) {
  Negotiation negotiation({.num_ranks = 1, .fusion_bytes = 0});
  uint64_t number = 0;
  for (const bool goes_well : {false, true}) {
    EXPECT_THAT(negotiation.Add(0, ++number, Reduction("a", 30), kStart),
                IsOk());
    EXPECT_THAT(negotiation.Add(0, ++number, Reduction("b", 31), kStart),
                IsOk());
    for (int i = 0; i < 2; ++i) {
      const auto made = negotiation.TakeDecisions(1);
      ASSERT_THAT(made, SizeIs(1));
      EXPECT_TRUE(made[0].begins_instance);
      EXPECT_EQ(negotiation.num_unsettled(), i + 1);
    }
    for (const InstanceKey instance : {1, 2}) {
      negotiation.OnRunEnded(instance, goes_well);
    }
    EXPECT_EQ(negotiation.num_unsettled(), 0);
  }
  ASSERT_THAT(negotiation.Add(0, ++number, Reduction("a", 30), kStart), IsOk());
  EXPECT_FALSE(negotiation.TakeDecisions(1)[0].begins_instance);
}

TEST(NegotiationTest, AnInstanceIsUnsettledAsLongAsOneOfItsRunsMaySettleIt) {
  Negotiation negotiation({.num_ranks = 1, .fusion_bytes = 0});
  uint64_t number = 0;
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_THAT(negotiation.Add(0, ++number, Reduction(name), kStart), IsOk());
  }
  ASSERT_THAT(negotiation.TakeDecisions(2), SizeIs(3));
  EXPECT_EQ(negotiation.num_unsettled(), 1);
  negotiation.OnRunEnded(/*key=*/1, /*went_well=*/false);
  EXPECT_EQ(negotiation.num_unsettled(), 1);
  negotiation.OnRunEnded(/*key=*/1, /*went_well=*/true);
  EXPECT_EQ(negotiation.num_unsettled(), 0);
  negotiation.OnRunEnded(/*key=*/1, /*went_well=*/false);
  EXPECT_EQ(negotiation.num_unsettled(), 0);
}

TEST(NegotiationTest, WhatDiffersIsNotFusedAndEndsAlone) {
  Negotiation negotiation({.num_ranks = 2});
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* name : {"a", "b", "c"}) {
      const int64_t size = *name == 'b' ? 4 + rank : 4;
      ASSERT_THAT(negotiation.Add(rank, *name, Reduction(name, size), kStart),
                  IsOk());
    }
  }
  const auto decisions = negotiation.TakeDecisions();
  ASSERT_THAT(decisions, SizeIs(2));
  EXPECT_THAT(decisions[0].requests[1], ElementsAre('a', 'c'));
  EXPECT_THAT(decisions[1].requests[1], ElementsAre('b'));
  EXPECT_THAT(decisions[1].status,
              IsFailedPrecondition("[4], but another rank sent a tensor of "
                                   "shape [5]: ranks [0] / [1]"));
}

TEST(NegotiationTest, ManySizesTogetherMakeFewInstances) {
  Negotiation negotiation({.num_ranks = 1});
  std::set<InstanceKey> instances;
  for (int64_t size = 1000; size < 2000; ++size) {
    for (const char* name : {"a", "b"}) {
      ASSERT_THAT(negotiation.Add(0, 1, Reduction(name, size), kStart), IsOk());
    }
    const auto decisions = negotiation.TakeDecisions();
    ASSERT_THAT(decisions, SizeIs(1));
    EXPECT_GE(decisions[0].fused_elements, 2 * size);
    EXPECT_LE(decisions[0].fused_elements, 2 * size + size / 4 + 1);
    instances.insert(decisions[0].instance);
  }
  EXPECT_LE(instances.size(), 18u);
}

TEST(NegotiationTest, GathersOfEverOtherRowsAreExecutionsOfFewInstances) {
  Negotiation negotiation({.num_ranks = 2});
  std::map<InstanceKey, uint64_t> num_executions;
  for (int64_t rows = 0; rows < 1000; ++rows) {
    ASSERT_THAT(negotiation.Add(0, 1, Rows(rows), kStart), IsOk());
    ASSERT_THAT(negotiation.Add(1, 1, Rows(2 * rows + 1), kStart), IsOk());
    const Negotiation::Decision made = negotiation.TakeDecisions().at(0);
    EXPECT_THAT(made.rows, ElementsAre(rows, 2 * rows + 1));
    EXPECT_EQ(made.fused_elements, 0);
    EXPECT_EQ(made.execution, num_executions[made.instance]++);
  }
  EXPECT_LE(num_executions.size(), 12u);
}

// Tasks never forget an instance.
TEST(NegotiationTest, WhereThereIsNoRoomGathersRunInPartsOfFewSizes) {
  Negotiation negotiation({.num_ranks = 3, .max_exact_entries = 12});
  std::mt19937_64 generator(1);
  std::set<InstanceKey> instances, exact;
  std::map<InstanceKey, uint64_t> num_executions;
  const auto decide = [&](const std::vector<int64_t>& rows) {
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(negotiation.Add(rank, 1, Rows(rows[rank]), kStart), IsOk());
    }
    const Negotiation::Decision made = negotiation.TakeDecisions().at(0);
    EXPECT_THAT(made.status, IsOk());
    EXPECT_EQ(made.rows, rows);
    EXPECT_EQ(made.execution, num_executions[made.instance]++);
    instances.insert(made.instance);
    if (made.fused_elements == 0) {
      exact.insert(made.instance);
    } else {
      const int64_t most = 2 * *std::max_element(rows.begin(), rows.end());
      EXPECT_GE(made.fused_elements, std::max<int64_t>(most, 1));
      EXPECT_LE(made.fused_elements, most + most / 8 + 1);
    }
    return made;
  };
  const Negotiation::Decision first = decide({1, 2, 3});
  for (int i = 0; i < 10000; ++i) {
    std::vector<int64_t> rows(3);
    for (int64_t& of_rank : rows) {
      of_rank = static_cast<int64_t>(generator() % 1000);
    }
    decide(rows);
  }
  EXPECT_EQ(exact.size(), 3u);  // Four entries each.
  EXPECT_LE(instances.size(), 3u + 80);
  decide({0, 0, 0});
  decide({int64_t{1} << 60, 1, 0});
  const Negotiation::Decision again = decide({1, 2, 3});
  EXPECT_EQ(again.instance, first.instance);
  EXPECT_EQ(again.execution, num_executions[first.instance] - 1);
  EXPECT_EQ(again.fused_elements, 0);
}

TEST(NegotiationTest, ReductionsOfEverOtherSizesMakeFewInstances) {
  Negotiation negotiation(
      {.num_ranks = 1, .fusion_bytes = 0, .max_exact_entries = 40});
  std::set<InstanceKey> instances;
  for (int64_t size = 0; size < 10000; ++size) {
    ASSERT_THAT(negotiation.Add(0, 1, Reduction("x", size), kStart), IsOk());
    const auto decisions = negotiation.TakeDecisions();
    ASSERT_THAT(decisions, SizeIs(1));
    if (size < 40) {
      EXPECT_EQ(decisions[0].fused_elements, 0);
    } else if (decisions[0].fused_elements != 0) {
      EXPECT_GE(decisions[0].fused_elements, size);
      EXPECT_LE(decisions[0].fused_elements, size + size / 8);
    }
    instances.insert(decisions[0].instance);
  }
  EXPECT_LE(instances.size(), 40u + 80);
}

TEST(NegotiationTest, AKnownNameIsAskedForByItsSlot) {
  Negotiation negotiation({.num_ranks = 2});
  AddOnBoth(negotiation, 1, Reduction("x"));
  const auto first = negotiation.TakeDecisions();
  ASSERT_THAT(first[0].slots, ElementsAre(1));
  ASSERT_THAT(negotiation.AddKnown(0, 2, 0, kStart), IsOk());
  ASSERT_THAT(negotiation.Add(1, 2, Reduction("x"), kStart), IsOk());
  const auto second = negotiation.TakeDecisions();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(second[0].status, IsOk());
  EXPECT_EQ(second[0].instance, first[0].instance);
  EXPECT_THAT(second[0].slots, ElementsAre(1));
  EXPECT_THAT(negotiation.AddKnown(0, 3, 1, kStart),
              IsInvalidArgument("slot 1"));
}

TEST(NegotiationTest, WhatFailedDoesNotChangeWhatIsKnown) {
  Negotiation negotiation({.num_ranks = 2});
  AddOnBoth(negotiation, 1, Reduction("x"));
  negotiation.TakeDecisions();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_THAT(negotiation.Add(rank, 2, Reduction("x", 5 + rank), kStart),
                IsOk());
  }
  EXPECT_FALSE(negotiation.TakeDecisions()[0].status.ok());
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_THAT(negotiation.AddKnown(rank, 3, 0, kStart), IsOk());
  }
  EXPECT_THAT(negotiation.TakeDecisions()[0].status, IsOk());
}

TEST(NegotiationTest, SlotsAndRequestsAreBounded) {
  Negotiation negotiation({.num_ranks = 2, .max_slots = 1});
  for (const char* name : {"a", "b"}) {
    AddOnBoth(negotiation, 1, Reduction(name));
    EXPECT_THAT(negotiation.TakeDecisions()[0].slots,
                ElementsAre(*name == 'a' ? 1 : 0));
  }
  for (size_t i = 0; i < kMaxPendingRequests; ++i) {
    ASSERT_THAT(negotiation.Add(0, i, Reduction(std::to_string(i)), kStart),
                IsOk());
  }
  EXPECT_EQ(negotiation.Add(0, 1, Reduction("one more"), kStart).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(negotiation.Add(1, 1, Reduction("0"), kStart), IsOk());
  negotiation.TakeDecisions();
  EXPECT_THAT(negotiation.Add(0, 1, Reduction("one more"), kStart), IsOk());
}

// Other ranks take one bit each.
TEST(NegotiationTest, OneRanksRequestsTakeRoomForOneRank) {
  constexpr int kNumRanks = 1000;
  Negotiation negotiation({.num_ranks = kNumRanks});
  constexpr uint64_t kNumNames = 2000;
  const int64_t bytes_before = num_bytes;
  for (uint64_t i = 0; i < kNumNames; ++i) {
    ASSERT_THAT(negotiation.Add(7, i, Reduction(std::to_string(i)), kStart),
                IsOk());
  }
  EXPECT_LT(num_bytes - bytes_before,
            int64_t{kNumNames} * (kNumRanks / 8 + 1024));
}

TEST(NegotiationTest, WhatIsKnownOfANameTakesRoomForWhatDiffers) {
  constexpr int kNumRanks = 10000;
  Negotiation negotiation({.num_ranks = kNumRanks});
  const auto decide = [&](const std::string& name, bool differ) {
    for (int rank = 0; rank < kNumRanks; ++rank) {
      TensorRequest request = Rows(differ ? rank : 3);
      request.name = name;
      EXPECT_THAT(negotiation.Add(rank, 1, std::move(request), kStart), IsOk());
    }
    EXPECT_THAT(negotiation.TakeDecisions().at(0).status, IsOk());
  };
  decide("first", /*differ=*/false);  // Allocates instances, too.
  decide("second", /*differ=*/true);
  int64_t bytes_before = num_bytes;
  decide("equal", /*differ=*/false);
  const int64_t equal_bytes = num_bytes - bytes_before;
  bytes_before = num_bytes;
  decide("differ", /*differ=*/true);
  const int64_t differ_bytes = num_bytes - bytes_before;
  EXPECT_LT(equal_bytes, 4096);
  EXPECT_LT(differ_bytes, 40 * kNumRanks);
}

TEST(NegotiationTest, TellsOnceWhoIsMissingAndEndsWhatExpires) {
  Negotiation negotiation({.num_ranks = 3});
  ASSERT_THAT(negotiation.Add(1, 5, Reduction("x"), kStart), IsOk());
  ASSERT_THAT(negotiation.Add(2, 6, Reduction("y"), kStart + absl::Seconds(1)),
              IsOk());
  EXPECT_EQ(negotiation.OldestNotReported(), kStart);
  const absl::Time now = kStart + absl::Seconds(60);
  const auto stalled = negotiation.TakeStalled(now, absl::Seconds(60));
  ASSERT_THAT(stalled, SizeIs(1));
  EXPECT_EQ(stalled[0].name, "x");
  EXPECT_THAT(stalled[0].present, ElementsAre(1));
  EXPECT_THAT(stalled[0].missing, ElementsAre(0, 2));
  EXPECT_THAT(negotiation.TakeStalled(now, absl::Seconds(60)), IsEmpty());
  EXPECT_EQ(negotiation.OldestNotReported(), kStart + absl::Seconds(1));
  EXPECT_EQ(negotiation.Oldest(), kStart);
  const auto expired = negotiation.TakeExpired(now, absl::Seconds(60));
  ASSERT_THAT(expired, SizeIs(1));
  EXPECT_EQ(expired[0].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(expired[0].requests,
              ElementsAre(IsEmpty(), ElementsAre(5), IsEmpty()));
  EXPECT_EQ(negotiation.num_waiting(), 1u);
  EXPECT_THAT(negotiation.Add(1, 7, Reduction("x"), now), IsOk());
}

TEST(NegotiationTest, AJoinedRankIsNotMissing) {
  Negotiation negotiation({.num_ranks = 3});
  ASSERT_THAT(negotiation.Add(0, 1, Reduction("x"), kStart), IsOk());
  ASSERT_THAT(negotiation.Join(2), IsOk());
  EXPECT_EQ(negotiation.Join(2).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(negotiation.Add(2, 1, Reduction("x"), kStart),
              IsFailedPrecondition("rank 2 has joined"));
  const auto stalled =
      negotiation.TakeStalled(kStart + absl::Seconds(60), absl::Seconds(60));
  ASSERT_THAT(stalled, SizeIs(1));
  EXPECT_THAT(stalled[0].missing, ElementsAre(1));
  ASSERT_THAT(negotiation.Add(1, 1, Reduction("x"), kStart), IsOk());
  const auto decisions = negotiation.TakeDecisions();
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].requests,
              ElementsAre(ElementsAre(1), ElementsAre(1), IsEmpty()));
  ASSERT_TRUE(decisions[0].stand_in.has_value());
  EXPECT_EQ(decisions[0].stand_in->shape.num_elements(), 4);
}

// Rank 1 has requested "a", but not "b" nor "c".
TEST(NegotiationTest, FusesWhatLacksTheSameRanksAndEndsTheJoinLast) {
  Negotiation negotiation({.num_ranks = 2});
  ASSERT_THAT(negotiation.Add(1, 1, Reduction("a"), kStart), IsOk());
  ASSERT_THAT(negotiation.Join(1), IsOk());
  uint64_t number = 0;
  for (const char* name : {"b", "a", "c"}) {
    ASSERT_THAT(negotiation.Add(0, ++number, Reduction(name), kStart), IsOk());
  }
  ASSERT_THAT(negotiation.Join(0), IsOk());
  const auto decisions = negotiation.TakeDecisions();
  ASSERT_THAT(decisions, SizeIs(3));
  EXPECT_THAT(decisions[0].requests, ElementsAre(ElementsAre(1, 3), IsEmpty()));
  EXPECT_EQ(decisions[0].stand_in->shape.num_elements(), 8);
  EXPECT_THAT(decisions[1].requests,
              ElementsAre(ElementsAre(2), ElementsAre(1)));
  EXPECT_FALSE(decisions[1].stand_in.has_value());
  EXPECT_EQ(decisions[2].last_joined, 0);
  EXPECT_THAT(decisions[2].requests, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_FALSE(negotiation.has_ready());
  EXPECT_THAT(negotiation.Join(1), IsOk());
}

// Rank 1 asks again for what it asked for before it joined.
TEST(NegotiationTest, WhatIsKnownOfAJoinedRankIsNotReplaced) {
  Negotiation negotiation({.num_ranks = 2});
  AddOnBoth(negotiation, 1, Reduction("x", 4));
  ASSERT_THAT(negotiation.TakeDecisions().at(0).slots, ElementsAre(1));
  ASSERT_THAT(negotiation.Join(1), IsOk());
  ASSERT_THAT(negotiation.Add(0, 2, Reduction("x", 5), kStart), IsOk());
  ASSERT_THAT(negotiation.TakeDecisions().at(0).slots, ElementsAre(0));
  ASSERT_THAT(negotiation.Join(0), IsOk());
  ASSERT_EQ(negotiation.TakeDecisions().at(0).last_joined, 0);
  ASSERT_THAT(negotiation.AddKnown(1, 2, /*slot=*/0, kStart), IsOk());
  ASSERT_THAT(negotiation.Add(0, 3, Reduction("x", 4), kStart), IsOk());
  EXPECT_THAT(negotiation.TakeDecisions().at(0).status, IsOk());
}

TEST(NegotiationTest, HugeTensorsAreCountedWithoutOverflow) {
  Negotiation negotiation({.num_ranks = 1});
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_THAT(
        negotiation.Add(0, 1, Reduction(name, int64_t{1} << 61), kStart),
        IsOk());
  }
  EXPECT_GT(negotiation.ready_bytes(), int64_t{1} << 40);
  EXPECT_THAT(negotiation.TakeDecisions(), SizeIs(3));
}

}  // namespace
}  // namespace tutti
