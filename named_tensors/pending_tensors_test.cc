#include "named_tensors/pending_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "named_tensors/coordinator_codec.h"
#include "named_tensors/rank_requests.h"
#include "named_tensors/request_batches.h"
#include "named_tensors/request_check.h"
#include "named_tensors/runs_in_order.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace pending_tensors_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

PendingTensorPtr Pending(const std::string& name, int64_t num_elements = 4) {
  const auto pending = std::make_shared<PendingTensor>();
  pending->request = {.name = name,
                      .shape = TensorShape::Vector(num_elements),
                      .merge_op = "sum"};
  return pending;
}

proto::Decision Decided(std::vector<uint64_t> requests, uint32_t slot) {
  proto::Decision decision;
  for (const uint64_t number : requests) decision.add_requests(number);
  decision.add_slots(slot);
  return decision;
}

TEST(PendingTensorsTest, ANameIsTakenUntilItLeaves) {
  PendingTensors pending(/*rank=*/1, /*num_ranks=*/2);
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  EXPECT_THAT(pending.Add(Pending("x")), IsAlreadyExists("rank 1"));
  pending.TakeMessage();
  const auto decided = pending.TakeDecided(Decided({1}, 1));
  ASSERT_THAT(decided, IsOk());
  EXPECT_EQ(pending.Add(Pending("x")).code(), absl::StatusCode::kAlreadyExists);
  pending.Leave(*decided);
  EXPECT_THAT(pending.Add(Pending("x")), IsOk());
  EXPECT_THAT(pending.TakeUndecided(), SizeIs(1));
  EXPECT_THAT(pending.Add(Pending("x")), IsOk());
}

TEST(PendingTensorsTest, WhatIsKnownIsAskedForByABitUnlessItChanged) {
  PendingTensors pending(/*rank=*/1, /*num_ranks=*/2);
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  EXPECT_THAT(pending.TakeMessage().requests(), SizeIs(1));
  pending.Leave(*pending.TakeDecided(Decided({1}, 3)));
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  const proto::SubmitTensors known = pending.TakeMessage();
  EXPECT_THAT(known.requests(), SizeIs(0));
  EXPECT_EQ(known.slots(), "\x04");
  pending.Leave(*pending.TakeDecided(Decided({2}, 3)));
  ASSERT_THAT(pending.Add(Pending("x", 5)), IsOk());
  EXPECT_THAT(pending.TakeMessage().requests(), SizeIs(1));
}

TEST(PendingTensorsTest, RefusesADecisionAboutWhatItDidNotAskFor) {
  PendingTensors pending(/*rank=*/1, /*num_ranks=*/2);
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  const auto refused = [&](const proto::Decision& decision) {
    return pending.TakeDecided(decision).status();
  };
  EXPECT_THAT(refused(Decided({1}, 1)),
              IsInvalidArgument("none that waits"));  // Not sent yet.
  pending.TakeMessage();
  for (const std::vector<uint64_t>& requests :
       std::vector<std::vector<uint64_t>>{{}, {2}, {1, 1}, {1, 0}}) {
    EXPECT_EQ(refused(Decided(requests, 1)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  proto::Decision gather = Decided({1}, 1);
  gather.add_rows(1);
  EXPECT_THAT(refused(gather), IsInvalidArgument("rows"));
  proto::Decision small = Decided({1}, 1);
  small.set_fused_elements(3);
  EXPECT_THAT(refused(small),
              IsInvalidArgument("fused_elements is 3; the requests have 4"));
  EXPECT_THAT(refused(Decided({1}, 1)), IsOk());
}

TEST(PendingTensorsTest, PartsOfAGatherHoldWhatEachRankHas) {
  PendingTensors pending(/*rank=*/1, /*num_ranks=*/2);
  const auto gather = std::make_shared<PendingTensor>();
  gather->request = {.name = "x",
                     .type = CollectiveType::kAllGather,
                     .shape = *TensorShape::Create({4, 3})};
  ASSERT_THAT(pending.Add(gather), IsOk());
  pending.TakeMessage();
  const auto reported = [&](std::vector<int64_t> rows, int64_t num_elements) {
    proto::Decision decision = Decided({1}, 1);
    for (const int64_t of_rank : rows) decision.add_rows(of_rank);
    decision.set_fused_elements(num_elements);
    return pending.TakeDecided(decision).status();
  };
  for (const int64_t num_elements : {-1, 1, 14, 32}) {
    EXPECT_EQ(reported({5, 4}, num_elements).code(),
              absl::StatusCode::kInvalidArgument)
        << num_elements;
  }
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{
           {}, {5}, {5, 3}, {-1, 4}, {int64_t{1} << 62, 4}}) {
    EXPECT_EQ(reported(rows, 16).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(reported({5, 4}, 16), IsOk());
}

TensorRequest Request(std::vector<int64_t> dims,
                      CollectiveType type = CollectiveType::kAllGather) {
  return {.name = "x", .type = type, .shape = *TensorShape::Create(dims)};
}

TEST(RankRequestsTest, GivesBackWhatEachRankAskedFor) {
  TensorRequest other_dtype = Request({3, 2});
  other_dtype.dtype = DType::kInt32;
  TensorRequest other_op = Request({3, 2});
  other_op.merge_op = "max";
  const std::vector<TensorRequest> wanted = {
      Request({3, 2}),
      Request({4, 2}),
      Request({0, 2}),
      Request({3, 2}),
      Request({3, 5}),
      Request({3}),
      Request({}),
      Request({1, 2, 3, 4, 5, 6}),
      Request({3, 2}, CollectiveType::kAllReduce),
      other_dtype,
      other_op};
  const int num_ranks = static_cast<int>(wanted.size());
  for (int first = 0; first < num_ranks; ++first) {
    SCOPED_TRACE(first);
    RankRequests requests(wanted[first]);
    for (int rank = num_ranks - 1; rank >= 0; --rank) {
      if (rank != first) requests.Add(rank, wanted[rank]);
    }
    EXPECT_EQ(requests.name(), "x");
    EXPECT_FALSE(requests.all_equal());
    std::vector<TensorRequest> given = requests.OfAll(num_ranks);
    EXPECT_EQ(given[0].name, "x");
    for (int rank = 0; rank < num_ranks; ++rank) {
      EXPECT_EQ(given[rank].name, rank == 0 ? "x" : "");
      given[rank].name = "x";
    }
    EXPECT_EQ(given, wanted);
  }
}

TEST(RankRequestsTest, EqualRequestsAreOne) {
  RankRequests requests(Request({3, 2}));
  requests.Add(0, Request({3, 2}));
  requests.Add(7, Request({3, 2}));
  EXPECT_TRUE(requests.all_equal());
  requests.Add(5, Request({2, 2}));
  EXPECT_FALSE(requests.all_equal());
}

TensorRequest Reduction(std::string name) {
  return {.name = std::move(name),
          .shape = *TensorShape::Create({2, 3}),
          .merge_op = "sum"};
}

TEST(RequestBatchesTest, RequestsComeOutAsTheyWentInWhateverTheirNames) {
  RequestBatches batches;
  std::vector<TensorRequest> in;
  for (const size_t size : {1, 65536, 20000, 30000, 40000, 41000, 3, 65535}) {
    in.push_back(Reduction(std::string(size, static_cast<char>(in.size()))));
    batches.Add(in.size(), in.back(), std::nullopt);
  }
  std::vector<TensorRequest> out;
  std::vector<uint64_t> ids;
  std::string name_head;
  uint64_t number = 0;
  while (!batches.empty()) {
    const RequestBatches::Batch batch = batches.TakeNext();
    EXPECT_LE(batch.message.ByteSizeLong(), size_t{60} << 10);
    EXPECT_EQ(batch.message.number(), ++number);
    EXPECT_EQ(batch.message.first_request(), ids.size() + 1);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    name_head += batch.message.name_head();
    for (const proto::TensorRequest& one : batch.message.requests()) {
      const auto request = DecodeTensorRequest(name_head, one);
      ASSERT_THAT(request, IsOk());
      out.push_back(*request);
      name_head.clear();
    }
  }
  EXPECT_EQ(out, in);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(RequestBatchesTest, KnownRequestsAreBitsAndCountAfterTheOthers) {
  RequestBatches batches;
  batches.Add(1, Reduction("a"), 17);
  batches.Add(2, Reduction("b"), std::nullopt);
  batches.Add(3, Reduction("c"), 3);
  const RequestBatches::Batch batch = batches.TakeNext();
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(batch.message.requests_size(), 1);
  EXPECT_THAT(batch.ids, ElementsAre(2, 3, 1));
  EXPECT_EQ(batch.message.slots().size(), 3u);
  EXPECT_THAT(DecodeSlots(batch.message.slots()), ElementsAre(3, 17));
}

TEST(RequestBatchesTest, AThousandKnownNamesTakeABitEach) {
  RequestBatches batches;
  for (uint32_t i = 0; i < 1000; ++i) {
    batches.Add(i, Reduction(std::to_string(i)), i);
  }
  EXPECT_LE(batches.TakeNext().message.ByteSizeLong(), 1000u / 8 + 16);
  EXPECT_TRUE(batches.empty());
  EXPECT_THAT(DecodeSlots(EncodeSlots({})), IsEmpty());
}

TensorRequest Gather(std::vector<int64_t> dims) {
  return {.name = "x",
          .type = CollectiveType::kAllGather,
          .shape = *TensorShape::Create(dims)};
}

TEST(RequestCheckTest, RanksMayDifferInTheRowsOfAGather) {
  EXPECT_THAT(CheckRequestsAgree({Gather({0, 2}), Gather({7, 2})}), IsOk());
  EXPECT_THAT(CheckRequestsAgree({}), IsOk());
}

TEST(RequestCheckTest, TypesAreComparedBeforeOperationsBeforeShapes) {
  TensorRequest one = Gather({2});
  TensorRequest other = Gather({2, 2});
  other.type = CollectiveType::kAllReduce;
  EXPECT_THAT(CheckRequestsAgree({one, other}),
              IsFailedPrecondition("mismatched operations: one rank did an "
                                   "allgather, but another rank did an "
                                   "allreduce: ranks [0] / [1]"));
  other.dtype = DType::kInt8;
  EXPECT_THAT(CheckRequestsAgree({one, other}),
              IsFailedPrecondition("mismatched data types"));
}

TEST(RequestCheckTest, NamesAllValuesAndTheirRanks) {
  TensorRequest request{.name = "x", .merge_op = "sum"};
  std::vector<TensorRequest> by_rank(40, request);
  by_rank[3].dtype = by_rank[5].dtype = DType::kInt8;
  by_rank[4].dtype = DType::kInt64;
  EXPECT_EQ(
      CheckRequestsAgree(by_rank).message(),
      "tensor \"x\": mismatched data types: one rank had type float32, "
      "but another rank had type int8: ranks [0, 1, 2, 6, 7, 8, 9, 10 and "
      "29 more] / [3, 5]; a further one had type int64: ranks [4]");
}

TEST(RequestCheckTest, RowsThatAreTooManyTogetherAreRefused) {
  const int64_t half = int64_t{1} << 62;
  EXPECT_THAT(CheckRequestsAgree({Gather({half}), Gather({half})}),
              IsFailedPrecondition("too many"));
  EXPECT_THAT(
      CheckRequestsAgree({Gather({half / 4, 2}), Gather({half / 4, 2}),
                          Gather({half / 4, 2}), Gather({half / 4, 2})}),
      IsFailedPrecondition("too many"));
}

TEST(RequestCheckTest, ALongNameIsShownInPart) {
  EXPECT_EQ(Quoted(std::string("a\0\"b", 4)), "\"a\\x00\\\"b\"");
  EXPECT_THAT(Quoted(std::string(70000, 'x')),
              HasSubstr("...\" (70000 bytes)"));
}

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

}  // namespace pending_tensors_test
}  // namespace tutti
