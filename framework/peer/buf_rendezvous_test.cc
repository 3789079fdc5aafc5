// The rendezvous of buffers, alone and under load.

#include "framework/peer/buf_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "framework/peer/message_key.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace buf_rendezvous_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int32_t kOfferId = 7;
constexpr int32_t kRecvId = 8;

BufKey Key(int32_t tag, uint64_t execution = 0) {
  return {.exec = {.generation = 1,
                   .step = 2,
                   .group = 3,
                   .instance = 4,
                   .execution = execution},
          .tag = tag,
          .from = 0,
          .to = 1};
}

const ExecKey kExec = Key(0).exec;
const ExecKey kOtherExec = Key(0, 99).exec;

struct Release {
  int32_t id;
  absl::Status status;
};
struct Arrival {
  int32_t id;
  absl::Status status;
  Delivery delivery;
};

// Both sides of all transfers. Each callback calls the rendezvous, which blocks
// for ever if a lock is held.
class Sides : public Sender, public Receiver {
 public:
  explicit Sides(BufRendezvous* rendezvous) : rendezvous_(rendezvous) {}

  void OnReleased(int32_t id, absl::Status status) override {
    ComeBack();
    releases.push_back({id, std::move(status)});
    if (on_released) std::exchange(on_released, nullptr)();
  }
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override {
    ComeBack();
    arrivals.push_back({id, std::move(status), delivery});
    if (on_delivery) std::exchange(on_delivery, nullptr)();
  }

  std::vector<Release> releases;
  std::vector<Arrival> arrivals;

  // Functions that run once, at the next callback.
  std::function<void()> on_released;
  std::function<void()> on_delivery;

 private:
  void ComeBack() {
    rendezvous_->num_waiting();
    rendezvous_->CancelExecution(kOtherExec, absl::CancelledError("other"));
    rendezvous_->ForgetExecution(kOtherExec);
  }

  BufRendezvous* const rendezvous_;
};

class BufRendezvousTest : public testing::Test {
 protected:
  ~BufRendezvousTest() override { rendezvous_.reset(); }  // Calls back.

  Offer MakeOffer(int32_t id = kOfferId) {
    return {.bytes = bytes_, .incarnation = 5, .sender = &sides_, .id = id};
  }
  RecvRequest MakeRecvRequest(int32_t id = kRecvId) {
    return {.num_bytes = bytes_.size(),
            .incarnation = 5,
            .receiver = &sides_,
            .id = id};
  }
  void Provide(const BufKey& key, int32_t id = kOfferId) {
    rendezvous_->Provide(key, MakeOffer(id));
  }
  void Consume(const BufKey& key, int32_t id = kRecvId) {
    rendezvous_->Consume(key, MakeRecvRequest(id));
  }

  bool CancelStep(int64_t step, absl::Status reason) {
    return BufRendezvous::Report(
        rendezvous_->End(EndScope::OfStep(step), std::move(reason)));
  }

  void ExpectDelivered() {
    ASSERT_THAT(sides_.arrivals, SizeIs(1));
    const Arrival& arrival = sides_.arrivals[0];
    EXPECT_EQ(arrival.id, kRecvId);
    EXPECT_THAT(arrival.status, IsOk());
    EXPECT_EQ(arrival.delivery.bytes.data(), bytes_.data());
    EXPECT_EQ(arrival.delivery.bytes.size(), bytes_.size());
    EXPECT_EQ(arrival.delivery.sender, &sides_);
    EXPECT_EQ(arrival.delivery.id, kOfferId);
    EXPECT_THAT(sides_.releases, IsEmpty());
    EXPECT_EQ(rendezvous_->num_waiting(), 0u);
  }

  // Checks that each side was called once, with this status.
  void ExpectBothReported(testing::Matcher<const absl::Status&> matches) {
    ASSERT_THAT(sides_.arrivals, SizeIs(1));
    EXPECT_EQ(sides_.arrivals[0].id, kRecvId);
    EXPECT_THAT(sides_.arrivals[0].status, matches);
    ASSERT_THAT(sides_.releases, SizeIs(1));
    EXPECT_EQ(sides_.releases[0].id, kOfferId);
    EXPECT_THAT(sides_.releases[0].status, matches);
    EXPECT_EQ(rendezvous_->num_waiting(), 0u);
  }

  void ExpectMismatch(const Offer& offer, const RecvRequest& recv,
                      testing::Matcher<const absl::Status&> matches) {
    rendezvous_->Provide(Key(0), offer);
    rendezvous_->Consume(Key(0), recv);
    ExpectBothReported(matches);
    sides_.arrivals.clear();
    sides_.releases.clear();
    rendezvous_->Consume(Key(0), recv);
    rendezvous_->Provide(Key(0), offer);
    ExpectBothReported(matches);
  }

  const std::array<std::byte, 12> bytes_{};
  std::unique_ptr<BufRendezvous> rendezvous_ =
      std::make_unique<BufRendezvous>();
  Sides sides_{rendezvous_.get()};
};

TEST_F(BufRendezvousTest, PostThenAsk) {
  Provide(Key(0));
  EXPECT_EQ(rendezvous_->num_waiting(), 1u);
  Consume(Key(0));
  ExpectDelivered();
}

TEST_F(BufRendezvousTest, AskThenPost) {
  Consume(Key(0));
  EXPECT_EQ(rendezvous_->num_waiting(), 1u);
  Provide(Key(0));
  ExpectDelivered();
}

TEST_F(BufRendezvousTest, TheBorrowerEndsTheLoan) {
  Provide(Key(0));
  Consume(Key(0));
  ExpectDelivered();
  sides_.arrivals[0].delivery.Release(absl::OkStatus());
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_EQ(sides_.releases[0].id, kOfferId);
  EXPECT_THAT(sides_.releases[0].status, IsOk());
}

TEST_F(BufRendezvousTest, TheBorrowerMaySayThatItCouldNotReadTheBytes) {
  Provide(Key(0));
  Consume(Key(0));
  ExpectDelivered();
  sides_.arrivals[0].delivery.Release(absl::DataLossError("unreadable"));
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_EQ(sides_.releases[0].status, absl::DataLossError("unreadable"));
}

TEST_F(BufRendezvousTest, KeysThatDifferDoNotMeet) {
  Provide(Key(0));
  Consume(Key(1));
  Consume(Key(0, /*execution=*/1));
  BufKey back = Key(0);
  std::swap(back.from, back.to);
  Consume(back);
  EXPECT_THAT(sides_.arrivals, IsEmpty());
  EXPECT_EQ(rendezvous_->num_waiting(), 4u);
}

TEST_F(BufRendezvousTest, EmptyBuffersMeetToo) {
  Offer offer = MakeOffer();
  offer.bytes = {};
  RecvRequest recv = MakeRecvRequest();
  recv.num_bytes = 0;
  rendezvous_->Provide(Key(0), offer);
  rendezvous_->Consume(Key(0), recv);
  ASSERT_THAT(sides_.arrivals, SizeIs(1));
  EXPECT_THAT(sides_.arrivals[0].status, IsOk());
}

TEST_F(BufRendezvousTest, ADuplicatePostIsAlreadyExistsAndTheFirstStays) {
  Provide(Key(0));
  Provide(Key(0), /*id=*/17);
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_EQ(sides_.releases[0].id, 17);
  EXPECT_THAT(
      sides_.releases[0].status,
      StatusIs(absl::StatusCode::kAlreadyExists,
               AllOf(HasSubstr(ToString(Key(0))), HasSubstr("offered twice"))));
  sides_.releases.clear();
  Consume(Key(0));
  ExpectDelivered();
}

TEST_F(BufRendezvousTest, ASecondAskerIsAlreadyExistsAndTheFirstStays) {
  Consume(Key(0));
  Consume(Key(0), /*id=*/18);
  ASSERT_THAT(sides_.arrivals, SizeIs(1));
  EXPECT_EQ(sides_.arrivals[0].id, 18);
  EXPECT_THAT(sides_.arrivals[0].status,
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr(ToString(Key(0))),
                             HasSubstr("asked for twice"))));
  sides_.arrivals.clear();
  Provide(Key(0));
  ExpectDelivered();
}

TEST_F(BufRendezvousTest, AKeyMayBeUsedAgainOnceBothHaveMet) {
  Provide(Key(0));
  Consume(Key(0));
  Consume(Key(0), /*id=*/18);
  Provide(Key(0), /*id=*/17);
  ASSERT_THAT(sides_.arrivals, SizeIs(2));
  EXPECT_THAT(sides_.arrivals[1].status, IsOk());
  EXPECT_EQ(sides_.arrivals[1].delivery.id, 17);
}

TEST_F(BufRendezvousTest, SizeMismatchIsInvalidOnBothSides) {
  RecvRequest recv = MakeRecvRequest();
  recv.num_bytes = 8;
  ExpectMismatch(
      MakeOffer(), recv,
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(ToString(Key(0))), HasSubstr("offers 12 bytes"),
                     HasSubstr("wants 8 bytes"))));
}

TEST_F(BufRendezvousTest, DtypeMismatchIsInvalidOnBothSides) {
  Offer offer = MakeOffer();
  offer.dtype = DType::kInt32;
  ExpectMismatch(offer, MakeRecvRequest(),
                 StatusIs(absl::StatusCode::kInvalidArgument,
                          AllOf(HasSubstr(ToString(Key(0))),
                                HasSubstr("12 bytes of int32"),
                                HasSubstr("12 bytes of float32"))));
}

TEST_F(BufRendezvousTest, IncarnationMismatchIsFailedPreconditionOnBothSides) {
  Offer offer = MakeOffer();
  offer.incarnation = 6;
  ExpectMismatch(offer, MakeRecvRequest(),
                 StatusIs(absl::StatusCode::kFailedPrecondition,
                          AllOf(HasSubstr(ToString(Key(0))),
                                HasSubstr("expected incarnation 5"),
                                HasSubstr("found 6"))));
}

TEST_F(BufRendezvousTest, CancelBeforeEitherSideEndsBothWhenTheyCome) {
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  Provide(Key(0));
  Consume(Key(0));
  ExpectBothReported(absl::AbortedError("why"));
}

TEST_F(BufRendezvousTest, CancelAfterThePostEndsBothSides) {
  Provide(Key(0));
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_EQ(sides_.releases[0].status, absl::AbortedError("why"));
  Consume(Key(0));
  ExpectBothReported(absl::AbortedError("why"));
}

TEST_F(BufRendezvousTest, CancelAfterTheAskEndsBothSides) {
  Consume(Key(0));
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  ASSERT_THAT(sides_.arrivals, SizeIs(1));
  EXPECT_EQ(sides_.arrivals[0].status, absl::AbortedError("why"));
  EXPECT_EQ(sides_.arrivals[0].delivery.sender, nullptr);
  Provide(Key(0));
  ExpectBothReported(absl::AbortedError("why"));
}

TEST_F(BufRendezvousTest, CancelAfterBothMetDoesNotTouchTheDelivery) {
  Provide(Key(0));
  Consume(Key(0));
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  ExpectDelivered();
  sides_.arrivals[0].delivery.Release(absl::OkStatus());
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_THAT(sides_.releases[0].status, IsOk());
}

TEST_F(BufRendezvousTest, CancelEndsAllOfItsExecutionAndNothingElse) {
  for (int32_t tag = 0; tag < 50; ++tag) {
    Provide(Key(tag));
    Consume(Key(100 + tag));
    Provide(Key(tag, /*execution=*/1));
  }
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  EXPECT_THAT(sides_.releases, SizeIs(50));
  EXPECT_THAT(sides_.arrivals, SizeIs(50));
  EXPECT_EQ(rendezvous_->num_waiting(), 50u);
  Consume(Key(3, /*execution=*/1));
  EXPECT_THAT(sides_.arrivals.back().status, IsOk());
}

TEST_F(BufRendezvousTest, TheFirstReasonOfACancellationStays) {
  rendezvous_->CancelExecution(kExec, absl::AbortedError("first"));
  rendezvous_->CancelExecution(kExec, absl::InternalError("second"));
  Provide(Key(0));
  Consume(Key(0));
  ExpectBothReported(absl::AbortedError("first"));
}

TEST_F(BufRendezvousTest, EndWithoutAReasonIsCancelled) {
  const auto is_cancelled = IsCancelled();
  Consume(Key(0));
  rendezvous_->CancelExecution(kExec, absl::OkStatus());
  Provide(Key(0));
  Consume(Key(0, /*execution=*/1));
  rendezvous_->StartAbort(absl::OkStatus());
  Provide(Key(0, /*execution=*/1));
  ASSERT_THAT(sides_.arrivals, SizeIs(2));
  ASSERT_THAT(sides_.releases, SizeIs(2));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(sides_.arrivals[i].status, is_cancelled);
    EXPECT_THAT(sides_.releases[i].status, is_cancelled);
  }
}

TEST_F(BufRendezvousTest, AForgottenExecutionMayMeetAgain) {
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  rendezvous_->CancelExecution(Key(0, 1).exec, absl::AbortedError("other"));
  rendezvous_->ForgetExecution(kExec);
  Provide(Key(0));
  Consume(Key(0));
  ExpectDelivered();
  Provide(Key(0, 1));
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_EQ(sides_.releases[0].status, absl::AbortedError("other"));
}

TEST_F(BufRendezvousTest, ForgettingWhatWasNotCancelledDoesNothing) {
  rendezvous_->ForgetExecution(kExec);
  rendezvous_->CancelExecution(Key(0, 1).exec, absl::AbortedError("other"));
  rendezvous_->ForgetExecution(kExec);
  Provide(Key(0));
  Consume(Key(0));
  ExpectDelivered();
}

TEST_F(BufRendezvousTest, AbortWakesAll) {
  for (int32_t tag = 0; tag < 50; ++tag) {
    Provide(Key(tag, /*execution=*/tag));
    BufKey key = Key(tag);
    key.to = tag;
    key.exec.instance = 5;
    Consume(key);
  }
  EXPECT_EQ(rendezvous_->num_waiting(), 100u);
  rendezvous_->StartAbort(absl::AbortedError("why"));
  EXPECT_EQ(rendezvous_->num_waiting(), 0u);
  ASSERT_THAT(sides_.releases, SizeIs(50));
  ASSERT_THAT(sides_.arrivals, SizeIs(50));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(sides_.releases[i].status, absl::AbortedError("why"));
    EXPECT_EQ(sides_.arrivals[i].status, absl::AbortedError("why"));
  }
}

TEST_F(BufRendezvousTest, AbortEndsAllThatComesLater) {
  rendezvous_->StartAbort(absl::AbortedError("first"));
  rendezvous_->StartAbort(absl::InternalError("second"));
  Provide(Key(0));
  Consume(Key(0));
  ExpectBothReported(absl::AbortedError("first"));
}

TEST_F(BufRendezvousTest, AForgottenExecutionStaysAborted) {
  rendezvous_->StartAbort(absl::AbortedError("why"));
  rendezvous_->ForgetExecution(kExec);
  Provide(Key(0));
  Consume(Key(0));
  ExpectBothReported(absl::AbortedError("why"));
}

// Step 0 has the key that the scope of everything has.
TEST_F(BufRendezvousTest, AnAbortStaysWhenTheReasonOfStep0IsForgotten) {
  rendezvous_->StartAbort(absl::AbortedError("why"));
  rendezvous_->ForgetReasonOf(0);
  EXPECT_EQ(rendezvous_->StatusOf(kExec), absl::AbortedError("why"));
  EXPECT_EQ(rendezvous_->StatusOf({.step = 0}), absl::AbortedError("why"));
}

TEST_F(BufRendezvousTest, OfCancelAndAbortTheFirstReasonStays) {
  rendezvous_->CancelExecution(kExec, absl::AbortedError("cancel"));
  rendezvous_->StartAbort(absl::InternalError("abort"));
  Provide(Key(0));
  Consume(Key(0));
  ExpectBothReported(absl::AbortedError("cancel"));
  rendezvous_->CancelExecution(Key(0, 1).exec, absl::AbortedError("late"));
  Provide(Key(0, 1));
  EXPECT_EQ(sides_.releases.back().status, absl::InternalError("abort"));
}

TEST_F(BufRendezvousTest, TeardownWithEntriesLeftIsAnErrorToTheirOwners) {
  Provide(Key(0));
  Consume(Key(1));
  rendezvous_.reset();
  const auto matches = IsCancelled("step ended");
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_THAT(sides_.releases[0].status, matches);
  ASSERT_THAT(sides_.arrivals, SizeIs(1));
  EXPECT_THAT(sides_.arrivals[0].status, matches);
}

TEST_F(BufRendezvousTest, WhatComesWhileItIsTornDownEndsTheSameWay) {
  BufRendezvous* const rendezvous = rendezvous_.get();
  sides_.on_released = [&] { rendezvous->Provide(Key(5), MakeOffer(17)); };
  Provide(Key(0));
  rendezvous_.reset();
  ASSERT_THAT(sides_.releases, SizeIs(2));
  EXPECT_EQ(sides_.releases[1].id, 17);
  EXPECT_EQ(sides_.releases[1].status.code(), absl::StatusCode::kCancelled);
}

TEST_F(BufRendezvousTest, TeardownAfterAnAbortTellsNobodyTwice) {
  Provide(Key(0));
  rendezvous_->StartAbort(absl::AbortedError("why"));
  rendezvous_.reset();
  EXPECT_THAT(sides_.releases, SizeIs(1));
}

// Callbacks that begin and end further transfers under the same keys.
TEST_F(BufRendezvousTest, CallbacksRunUnderNoLock) {
  sides_.on_delivery = [&] {
    Provide(Key(0), /*id=*/17);
    sides_.arrivals[0].delivery.Release(absl::OkStatus());
  };
  sides_.on_released = [&] { Consume(Key(0), /*id=*/18); };
  Consume(Key(0));
  Provide(Key(0));
  ASSERT_THAT(sides_.arrivals, SizeIs(2));
  EXPECT_EQ(sides_.arrivals[1].id, 18);
  EXPECT_EQ(sides_.arrivals[1].delivery.id, 17);
}

TEST_F(BufRendezvousTest, CallbacksOfACancellationMayTransferAgain) {
  sides_.on_released = [&] { Provide(Key(0), /*id=*/17); };
  sides_.on_delivery = [&] { Consume(Key(1, /*execution=*/1)); };
  Provide(Key(0));
  Consume(Key(1));
  rendezvous_->CancelExecution(kExec, absl::AbortedError("why"));
  ASSERT_THAT(sides_.releases, SizeIs(2));
  EXPECT_EQ(sides_.releases[1].id, 17);
  EXPECT_EQ(sides_.releases[1].status, absl::AbortedError("why"));
  EXPECT_EQ(rendezvous_->num_waiting(), 1u);
}

TEST_F(BufRendezvousTest, CallbacksOfAMismatchMayTransferAgain) {
  RecvRequest recv = MakeRecvRequest();
  recv.num_bytes = 8;
  sides_.on_delivery = [&] { Consume(Key(0)); };
  sides_.on_released = [&] { Provide(Key(0)); };
  Provide(Key(0));
  rendezvous_->Consume(Key(0), recv);
  ASSERT_THAT(sides_.arrivals, SizeIs(2));
  EXPECT_THAT(sides_.arrivals[1].status, IsOk());
}

TEST_F(BufRendezvousTest, AnAskThatWaitsCanBeTakenBack) {
  Consume(Key(0));
  EXPECT_TRUE(rendezvous_->CancelRecv(Key(0), &sides_,
                                      absl::CancelledError("withdrawn")));
  ASSERT_THAT(sides_.arrivals, SizeIs(1));
  EXPECT_EQ(sides_.arrivals[0].status, absl::CancelledError("withdrawn"));
  EXPECT_EQ(rendezvous_->num_waiting(), 0u);
}

TEST_F(BufRendezvousTest, TakesBackNothingButThatAsk) {
  Sides other(rendezvous_.get());
  Consume(Key(0));
  Provide(Key(1));
  const absl::Status reason = absl::CancelledError("withdrawn");
  EXPECT_FALSE(rendezvous_->CancelRecv(Key(0), &other, reason));
  EXPECT_FALSE(rendezvous_->CancelRecv(Key(1), &sides_, reason));
  EXPECT_FALSE(rendezvous_->CancelRecv(Key(2), &sides_, reason));
  EXPECT_EQ(rendezvous_->num_waiting(), 2u);
}

TEST_F(BufRendezvousTest, ACancelledStepEndsAllItsExecutionsAndNoOther) {
  BufKey of_other_step = Key(1);
  of_other_step.exec.step = kExec.step + 1;
  Provide(Key(0));
  Provide(of_other_step, /*id=*/17);
  EXPECT_TRUE(CancelStep(kExec.step, absl::AbortedError("step over")));
  EXPECT_FALSE(CancelStep(kExec.step, absl::AbortedError("again")));
  EXPECT_TRUE(
      rendezvous_->CancelExecution(kExec, absl::AbortedError("too late")));
  EXPECT_FALSE(
      rendezvous_->CancelExecution(kExec, absl::AbortedError("again")));
  Provide(Key(2, /*execution=*/9));
  ASSERT_THAT(sides_.releases, SizeIs(2));
  for (const Release& release : sides_.releases) {
    EXPECT_EQ(release.status, absl::AbortedError("step over"));
  }
  EXPECT_EQ(rendezvous_->num_waiting(), 1u);
  EXPECT_EQ(rendezvous_->StatusOf(kExec), absl::AbortedError("step over"));
}

TEST_F(BufRendezvousTest, AGenerationThatEndsEndsAllItsExecutionsAndNoOther) {
  const auto group = EndScope::Of(kExec, EndScope::kGroup);
  BufKey of_next = Key(0);
  ++of_next.exec.generation;
  Provide(Key(0));
  Provide(of_next, /*id=*/17);
  const absl::Status reason = absl::UnavailableError("a task is lost");
  EXPECT_TRUE(BufRendezvous::Report(rendezvous_->End(group, reason)));
  EXPECT_FALSE(BufRendezvous::Report(
      rendezvous_->End(group, absl::AbortedError("again"))));
  Provide(Key(1, /*execution=*/9));
  ASSERT_THAT(sides_.releases, SizeIs(2));
  for (const Release& release : sides_.releases) {
    EXPECT_EQ(release.status, reason);
  }
  EXPECT_EQ(rendezvous_->num_waiting(), 1u);
  CancelStep(kExec.step, absl::AbortedError("step over"));
  EXPECT_EQ(rendezvous_->StatusOf(kExec), reason);
  EXPECT_EQ(rendezvous_->StatusOf(of_next.exec),
            absl::AbortedError("step over"));
}

TEST_F(BufRendezvousTest, AnAnnouncementComesWithTheOfferAndTakesNothing) {
  const BufKey message = Key(kMessageTag, kMessages + 2);
  const BufKey announcement = Key(kAnnouncementTag, kMessages + 2);
  RecvRequest empty = MakeRecvRequest(/*id=*/20);
  empty.num_bytes = 0;
  for (const bool asks_first : {true, false}) {
    sides_.arrivals.clear();
    if (asks_first) rendezvous_->Consume(announcement, empty);
    EXPECT_THAT(sides_.arrivals, IsEmpty());
    Provide(message);
    if (!asks_first) rendezvous_->Consume(announcement, empty);
    ASSERT_THAT(sides_.arrivals, SizeIs(1));
    EXPECT_EQ(sides_.arrivals[0].id, 20);
    EXPECT_THAT(sides_.arrivals[0].status, IsOk());
    EXPECT_THAT(sides_.arrivals[0].delivery.bytes, IsEmpty());
    EXPECT_EQ(rendezvous_->num_waiting(), 1u);
    Consume(message);
    ASSERT_THAT(sides_.arrivals, SizeIs(2));
    EXPECT_THAT(sides_.arrivals[1].status, IsOk());
    EXPECT_EQ(rendezvous_->num_waiting(), 0u);
  }
  rendezvous_->Consume(announcement, empty);
  rendezvous_->CancelExecution(message.exec, absl::AbortedError("over"));
  rendezvous_->Consume(announcement, empty);
  ASSERT_THAT(sides_.arrivals, SizeIs(4));
  EXPECT_THAT(sides_.arrivals[2].status, IsAborted("over"));
  EXPECT_THAT(sides_.arrivals[3].status, IsAborted("over"));
}

TEST_F(BufRendezvousTest, NamesWhoHasNotAskedForWhatLiesHere) {
  EXPECT_THAT(rendezvous_->RanksThatHaveNotRequested(kExec), IsEmpty());
  BufKey third = Key(5);
  third.to = 2;
  Consume(Key(1));
  Provide(third);
  Provide(Key(3));
  Provide(Key(4));
  Provide(Key(5, /*execution=*/99));
  EXPECT_THAT(rendezvous_->RanksThatHaveNotRequested(kExec), ElementsAre(1, 2));
  Consume(Key(3));
  Consume(Key(4));
  EXPECT_THAT(rendezvous_->RanksThatHaveNotRequested(kExec), ElementsAre(2));
}

TEST_F(BufRendezvousTest, SaysWhatTheTransfersOfAnExecutionWaitFor) {
  EXPECT_EQ(rendezvous_->DescribeWaiting(kExec), "");
  Consume(Key(12));
  Consume(Key(3));
  EXPECT_EQ(rendezvous_->DescribeWaiting(kExec),
            "data of rank 0 for rank 1 (tag 3), "
            "data of rank 0 for rank 1 (tag 12)");
  Provide(Key(4));
  Provide(Key(5, /*execution=*/99));
  EXPECT_EQ(rendezvous_->DescribeWaiting(kExec),
            "data of rank 0 for rank 1 (tag 3), "
            "data of rank 0 for rank 1 (tag 12); "
            "rank 1 to ask rank 0 for data (tag 4)");
  Provide(Key(3));
  Provide(Key(12));
  EXPECT_EQ(rendezvous_->DescribeWaiting(kExec),
            "rank 1 to ask rank 0 for data (tag 4)");
}

TEST_F(BufRendezvousTest, NobodyIsCalledBeforeWhatEndedIsTold) {
  Provide(Key(0));
  const auto execution =
      rendezvous_->End(EndScope::Of(kExec), absl::AbortedError("why"));
  Consume(Key(1, /*execution=*/1));
  const auto step =
      rendezvous_->End(EndScope::OfStep(kExec.step), absl::DataLossError("it"));
  EXPECT_EQ(rendezvous_->num_waiting(), 0u);
  EXPECT_THAT(sides_.releases, IsEmpty());
  EXPECT_THAT(sides_.arrivals, IsEmpty());
  EXPECT_TRUE(BufRendezvous::Report(execution));
  EXPECT_TRUE(BufRendezvous::Report(step));
  ASSERT_THAT(sides_.releases, SizeIs(1));
  EXPECT_EQ(sides_.releases[0].status, absl::AbortedError("why"));
  ASSERT_THAT(sides_.arrivals, SizeIs(1));
  EXPECT_EQ(sides_.arrivals[0].status, absl::DataLossError("it"));
}

TEST_F(BufRendezvousTest, AStepWhoseReasonIsForgottenRefusesWhatComesLate) {
  CancelStep(kExec.step, absl::DataLossError("why"));
  for (int i = 0; i < 2; ++i) rendezvous_->ForgetReasonOf(kExec.step);
  EXPECT_FALSE(CancelStep(kExec.step, absl::DataLossError("again")));
  EXPECT_FALSE(
      rendezvous_->CancelExecution(kExec, absl::AbortedError("too late")));
  Provide(Key(0));
  Consume(Key(0));
  ExpectBothReported(StepHasEndedError(kExec.step));
  ExecKey of_other_step = kExec;
  ++of_other_step.step;
  EXPECT_THAT(rendezvous_->StatusOf(of_other_step), IsOk());
}

TEST(BoundedBufRendezvousTest, OffersPastTheBoundEndWithUsedAskedAndBound) {
  const std::array<std::byte, 100> bytes = {};
  BufRendezvous rendezvous(/*max_offered_bytes=*/64);
  Sides sides(&rendezvous);
  const auto offer = [&](int tag, size_t size) {
    rendezvous.Provide(Key(tag), {.bytes = absl::MakeSpan(bytes).first(size),
                                  .sender = &sides,
                                  .id = tag});
  };
  offer(1, 40);
  offer(2, 24);  // Reaches the bound exactly.
  EXPECT_THAT(sides.releases, IsEmpty());
  offer(3, 1);
  ASSERT_THAT(sides.releases, SizeIs(1));
  EXPECT_EQ(sides.releases[0].id, 3);
  EXPECT_THAT(sides.releases[0].status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("64 bytes wait"), HasSubstr("1 more"),
                             HasSubstr("bound of 64"))));
  EXPECT_EQ(rendezvous.num_waiting(), 2u);

  // Sides that leave in any way make room.
  rendezvous.Consume(Key(1), {.num_bytes = 40, .receiver = &sides});
  EXPECT_EQ(rendezvous.num_offered_bytes(), 24u);
  rendezvous.CancelExecution(kExec, absl::AbortedError("over"));
  EXPECT_EQ(rendezvous.num_offered_bytes(), 0u);
  rendezvous.ForgetExecution(kExec);

  // A single offer may be larger. An offer that meets its request does not
  // wait.
  offer(4, 100);
  rendezvous.Consume(Key(5), {.num_bytes = 90, .receiver = &sides});
  offer(5, 90);
  EXPECT_EQ(rendezvous.num_offered_bytes(), 100u);
  EXPECT_THAT(sides.arrivals.back().status, IsOk());
  rendezvous.StartAbort(absl::CancelledError("the sides go"));
  EXPECT_EQ(rendezvous.num_offered_bytes(), 0u);
}

constexpr int kThreads = 4;
constexpr int kTransfers = 2000;
constexpr int kExecutions = 8;

BufKey KeyOf(int transfer) {
  return {.exec = {.instance = transfer % 3,
                   .execution = static_cast<uint64_t>(transfer % kExecutions)},
          .tag = transfer,
          .from = transfer % 5,
          .to = transfer % 7};
}

// Makes kTransfers transfers, each side once, on any threads. The sender writes
// a buffer before it offers the buffer and after the release. The receiver
// reads it in between. So a release that is too early or too late shows as a
// race.
class Traffic : public Sender, public Receiver {
 public:
  explicit Traffic(BufRendezvous* rendezvous)
      : rendezvous_(rendezvous),
        bytes_(kTransfers),
        num_released_(kTransfers),
        num_delivered_(kTransfers) {}

  void Provide(int transfer) {
    bytes_[transfer] = std::byte{42};
    rendezvous_->Provide(
        KeyOf(transfer),
        {.bytes = {&bytes_[transfer], 1}, .sender = this, .id = transfer});
  }
  void Consume(int transfer) {
    rendezvous_->Consume(KeyOf(transfer),
                         {.num_bytes = 1, .receiver = this, .id = transfer});
  }

  void OnReleased(int32_t id, absl::Status status) override {
    bytes_[id] = std::byte{0};
    if (!status.ok()) ++num_failed_offers_;
    ++num_released_[id];
  }
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override {
    ++num_delivered_[id];
    if (!status.ok()) {
      ++num_failed_requests_;
      return;
    }
    EXPECT_EQ(delivery.id, id);
    EXPECT_EQ(delivery.bytes[0], std::byte{42});
    delivery.Release(absl::OkStatus());
  }

  void ExpectEachSideReportedOnce() const {
    for (int i = 0; i < kTransfers; ++i) {
      EXPECT_EQ(num_released_[i], 1) << "transfer " << i;
      EXPECT_EQ(num_delivered_[i], 1) << "transfer " << i;
    }
  }
  int num_failed_offers() const { return num_failed_offers_; }
  int num_failed_requests() const { return num_failed_requests_; }

 private:
  BufRendezvous* const rendezvous_;
  std::vector<std::byte> bytes_;
  std::vector<std::atomic<int>> num_released_;
  std::vector<std::atomic<int>> num_delivered_;
  std::atomic<int> num_failed_offers_{0};
  std::atomic<int> num_failed_requests_{0};
};

class BufRendezvousStressTest : public testing::TestWithParam<uint32_t> {
 protected:
  // Runs both sides of all transfers, in an order given by the seed, on several
  // threads. `also` runs on each thread between its transfers.
  template <typename Also>
  void RunAll(Traffic& traffic, Also also) {
    std::vector<int> sides(2 * kTransfers);
    std::iota(sides.begin(), sides.end(), 0);
    std::shuffle(sides.begin(), sides.end(), std::mt19937(GetParam()));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t i = thread; i < sides.size(); i += kThreads) {
          const int transfer = sides[i] / 2;
          if (sides[i] % 2 == 0) {
            traffic.Provide(transfer);
          } else {
            traffic.Consume(transfer);
          }
          also(static_cast<int>(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_P(BufRendezvousStressTest, AllTransfersMeet) {
  const auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  RunAll(traffic, [](int) {});
  traffic.ExpectEachSideReportedOnce();
  EXPECT_EQ(traffic.num_failed_offers(), 0);
  EXPECT_EQ(traffic.num_failed_requests(), 0);
  EXPECT_EQ(rendezvous->num_waiting(), 0u);
}

TEST_P(BufRendezvousStressTest, CancelledExecutionsLeaveNobodyWaiting) {
  const auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  RunAll(traffic, [&](int done) {
    if (done % 200 != 0) return;
    rendezvous->CancelExecution(KeyOf((done / 200) % kExecutions).exec,
                                absl::CancelledError("stress"));
    rendezvous->ForgetExecution({.execution = 1000});
  });
  traffic.ExpectEachSideReportedOnce();
  EXPECT_EQ(rendezvous->num_waiting(), 0u);
  EXPECT_EQ(traffic.num_failed_offers(), traffic.num_failed_requests());
}

TEST_P(BufRendezvousStressTest, AnAbortLeavesNobodyWaiting) {
  const auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  RunAll(traffic, [&](int done) {
    if (done % kTransfers == 0) {
      rendezvous->StartAbort(absl::AbortedError("stress"));
    }
  });
  traffic.ExpectEachSideReportedOnce();
  EXPECT_EQ(rendezvous->num_waiting(), 0u);
}

TEST_P(BufRendezvousStressTest, TeardownTellsAllThatStillWait) {
  auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  for (int transfer = 0; transfer < kTransfers; ++transfer) {
    if (transfer % 2 == 0) {
      traffic.Provide(transfer);
    } else {
      traffic.Consume(transfer);
    }
  }
  rendezvous.reset();
  EXPECT_EQ(traffic.num_failed_offers(), kTransfers / 2);
  EXPECT_EQ(traffic.num_failed_requests(), kTransfers / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BufRendezvousStressTest,
                         testing::Range(1u, 11u), [](const auto& info) {
                           return "seed" + std::to_string(info.param);
                         });

constexpr ExecKey kFullKey = {
    .generation = 3, .step = 1, .group = 2, .instance = 4, .execution = 5};

TEST(BufKeyTest, IsWrittenWithAllItsParts) {
  EXPECT_EQ(ToString(kFullKey),
            "step 1, group 2 (generation 3), instance 4, execution 5");
  EXPECT_EQ(ToString(BufKey{.exec = kFullKey, .tag = 6, .from = 7, .to = 8}),
            "step 1, group 2 (generation 3), instance 4, execution 5, rank 7 "
            "to rank 8, tag 6");
}

TEST(BufKeyTest, KeysThatDifferInOnePartAreDifferentKeys) {
  const BufKey key{.exec = kFullKey, .tag = 6, .from = 7, .to = 8};
  std::vector<BufKey> keys(9, key);
  ++keys[1].exec.generation;
  ++keys[2].exec.step;
  ++keys[3].exec.group;
  ++keys[4].exec.instance;
  ++keys[5].exec.execution;
  ++keys[6].tag;
  ++keys[7].from;
  ++keys[8].to;
  absl::flat_hash_set<BufKey> distinct(keys.begin(), keys.end());
  EXPECT_EQ(distinct.size(), keys.size());
  distinct.insert(key);
  EXPECT_EQ(distinct.size(), keys.size());
}

}  // namespace buf_rendezvous_test
}  // namespace tutti
