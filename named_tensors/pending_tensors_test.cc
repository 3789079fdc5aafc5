#include "named_tensors/pending_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace pending_tensors_test {

using ::testing::HasSubstr;
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
  EXPECT_THAT(pending.Add(Pending("x")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("rank 1")));
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
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("none that waits")));  // Not sent yet.
  pending.TakeMessage();
  for (const std::vector<uint64_t>& requests :
       std::vector<std::vector<uint64_t>>{{}, {2}, {1, 1}, {1, 0}}) {
    EXPECT_EQ(refused(Decided(requests, 1)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  proto::Decision gather = Decided({1}, 1);
  gather.add_rows(1);
  EXPECT_THAT(refused(gather),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows")));
  proto::Decision small = Decided({1}, 1);
  small.set_fused_elements(3);
  EXPECT_THAT(refused(small),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("fused_elements is 3; the requests have 4")));
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

}  // namespace pending_tensors_test
}  // namespace tutti
