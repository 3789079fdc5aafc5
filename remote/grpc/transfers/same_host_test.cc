// Tests transfers between tasks on the same host, which read each other's
// memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "remote/fake_services.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/running_tasks_testing.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/transfers/receive_stream.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/peer_memory.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace same_host_test {

using testing::ElementsAreArray;
using testing::Not;

// Large enough to be read outside of gRPC's threads.
constexpr size_t kQueuedBytes = size_t{8} << 20;

// Returns the sizes of parts read from memory. Parts from a stream differ.
std::vector<size_t> Blocks(size_t num_bytes) {
  std::vector<size_t> sizes(num_bytes / kMemoryBlockBytes, kMemoryBlockBytes);
  if (num_bytes % kMemoryBlockBytes > 0) {
    sizes.push_back(num_bytes % kMemoryBlockBytes);
  }
  return sizes;
}

// Tasks 0 and 1. Task 0 has had an answer of task 1: it knows whether it can
// read its memory.
class ConnectedTasks : public RunningTasks {
 public:
  explicit ConnectedTasks(Change change = nullptr)
      : RunningTasks(2, std::move(change)) {
    ExpectArrive(*this, 1, DType::kUint8, /*tag=*/99);
  }
};

TEST(SameHostTest, LargePayloadsAreReadInBlocksWithTheRightValues) {
  ConnectedTasks tasks;
  for (const size_t num_bytes :
       {kMinMemoryBytes, kMinMemoryBytes + 1, kMemoryBlockBytes - 1,
        kMemoryBlockBytes, kMemoryBlockBytes + 1, (size_t{1} << 20) + 1,
        kQueuedBytes, kLargeBytes + 3}) {
    EXPECT_THAT(ExpectArrive(tasks, num_bytes),
                ElementsAreArray(Blocks(num_bytes)));
  }
}

TEST(SameHostTest, BlocksAreWholeElementsOfEveryType) {
  ConnectedTasks tasks;
  for (const DType dtype : kAllDTypes) {
    const size_t num_bytes = SizeOf(dtype) * 300'007;
    const auto sizes = ExpectArrive(tasks, num_bytes, dtype);
    EXPECT_THAT(sizes, ElementsAreArray(Blocks(num_bytes)));
    for (const size_t size : sizes) {
      EXPECT_EQ(size % SizeOf(dtype), 0);
    }
  }
}

TEST(SameHostTest, PayloadsAreReadToWhereTheyGo) {
  ConnectedTasks tasks;
  LentBytes lent(tasks, 2 * kMemoryDirectBytes + 1);
  WaitingReceiver receiver(lent.bytes().size());
  tasks.transport(0).transfers().Request(1, KeyOf(0),
                                         {.num_bytes = lent.bytes().size(),
                                          .dtype = DType::kUint8,
                                          .receiver = &receiver,
                                          .into = receiver.into()});
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == lent.bytes());
  EXPECT_EQ(receiver.num_in_place(), 3u);
}

TEST(SameHostTest, ATaskThatDoesNotWantItGetsAndGivesBytesOverTheStream) {
  for (int unwilling = 0; unwilling < 2; ++unwilling) {
    ConnectedTasks tasks([&](int task, GrpcTransportOptions& options) {
      options.same_host_memory = task != unwilling;
    });
    EXPECT_THAT(ExpectArrive(tasks, kQueuedBytes),
                Not(ElementsAreArray(Blocks(kQueuedBytes))));
  }
}

TEST(SameHostTest, WhatCannotBeReadAnyMoreIsSent) {
  ConnectedTasks tasks;
  LentBytes lent(tasks, kQueuedBytes);
  bool is_forbidden = false;
  HookedReceiver receiver(kQueuedBytes, [&](size_t num_received_bytes) {
    if (num_received_bytes == 2 * kMemoryBlockBytes) {
      is_forbidden = ForbidSystemCall(SYS_process_vm_readv);
    }
  });
  tasks.Request(0, 1, KeyOf(0), kQueuedBytes, receiver);
  EXPECT_THAT(receiver.bytes().Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes().bytes() == lent.bytes());
  if (!is_forbidden) GTEST_SKIP() << "this system does not forbid it";
  EXPECT_THAT(receiver.bytes().part_sizes(),
              Not(ElementsAreArray(Blocks(kQueuedBytes))));
}

TEST(SameHostTest, ATransferCancelledWhileItIsReadEndsWithTheReason) {
  ConnectedTasks tasks;
  LentBytes lent(tasks, kQueuedBytes);
  BlockingCounter has_part(1), may_go_on(1);
  HookedReceiver receiver(kQueuedBytes, [&](size_t num_received_bytes) {
    ASSERT_EQ(num_received_bytes, kMemoryBlockBytes);  // No part follows it.
    has_part.DecrementCount();
    may_go_on.Wait();
  });
  tasks.Request(0, 1, KeyOf(0), kQueuedBytes, receiver);
  has_part.Wait();
  CancelRequest(tasks.transport(0).transfers(), KeyOf(0),
                absl::AbortedError("enough"));
  EXPECT_THAT(lent.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  may_go_on.DecrementCount();
  EXPECT_THAT(receiver.bytes().Wait(),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(SameHostTest, BytesThatWereTakenBackBeforeTheyWereReadAreNoResult) {
  ConnectedTasks tasks;
  LentBytes lent(tasks, kQueuedBytes);
  BlockingCounter has_all(1), may_go_on(1);
  HookedReceiver receiver(kQueuedBytes, [&](size_t num_received_bytes) {
    if (num_received_bytes < kQueuedBytes) return;
    has_all.DecrementCount();
    may_go_on.Wait();
  });
  tasks.Request(0, 1, KeyOf(0), kQueuedBytes, receiver);
  has_all.Wait();
  tasks.Stop(1);
  EXPECT_THAT(lent.Wait(), IsUnavailable("connection closed"));
  may_go_on.DecrementCount();
  EXPECT_THAT(receiver.bytes().Wait(), IsUnavailable("task 1 ("));
}

TEST(SameHostTest, AReceiverThatIsShutDownWhileItReadsEndsTheTransfer) {
  ConnectedTasks tasks;
  LentBytes lent(tasks, kLargeBytes);
  BlockingCounter has_part(1), may_go_on(1);
  HookedReceiver receiver(kLargeBytes, [&](size_t num_received_bytes) {
    if (num_received_bytes > kMemoryBlockBytes) return;
    has_part.DecrementCount();
    may_go_on.Wait();
  });
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, receiver);
  has_part.Wait();
  std::thread stops([&] { tasks.Stop(0); });
  // The stream closes before the read has ended.
  EXPECT_THAT(lent.Wait(), IsUnavailable("connection closed"));
  may_go_on.DecrementCount();
  stops.join();
  EXPECT_TRUE(absl::IsCancelled(receiver.bytes().Wait()));
}

std::string Request(uint64_t id, int tag, size_t num_bytes) {
  return RequestRecord(id, tag, num_bytes, /*may_read_memory=*/true);
}

TEST(SameHostTest, RecordsAboutMemoryThatIsNotLentEndTheStream) {
  RunningTasks tasks(2);
  const auto sends = [&](const CallFields& fields, const std::string& message) {
    return CallAs(tasks.address(1), fields, "/tutti.Transfers/Pull", message)
        .error_code();
  };
  const CallFields good = MemoryRequestFields(0, 1);
  EXPECT_EQ(sends(good, Request(1, 0, 4)), grpc::StatusCode::OK);
  for (const RecordKind kind : {RecordKind::kRead, RecordKind::kSend}) {
    const std::string record = Bytes(TransferRecord{.kind = kind, .id = 1});
    EXPECT_EQ(sends(good, record), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(sends(good, Request(1, 0, 4) + record),
              grpc::StatusCode::INTERNAL);
  }
  EXPECT_EQ(
      sends(good, Bytes(TransferRecord{.kind = static_cast<RecordKind>(5)})),
      grpc::StatusCode::INTERNAL);

  // Memory is not posted for callers without an offer.
  CallFields fields = good;
  fields["tutti-host"] = "elsewhere";
  EXPECT_EQ(sends(fields, Request(1, 0, 4)), grpc::StatusCode::INTERNAL);
  fields = good;
  fields["tutti-challenge-bin"] = "short";
  EXPECT_EQ(sends(fields, Request(1, 0, 4)), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(sends(GoodFields(0, 1), Request(1, 0, 4)),
            grpc::StatusCode::INTERNAL);
  tasks.table(1).WaitForRequests(0);
}

std::string Frame(const FrameHeader& header, const std::string& payload) {
  return Bytes(header) + payload;
}

std::string Place(uint64_t id, const MemoryPlace& place) {
  return Frame(
      {.id = id, .length = kMemoryPlaceBytes, .kind = FrameKind::kPlace},
      Bytes(place));
}

// Fake task 1, which offers its memory and then sends invalid frames.
class ForgedFramesTest : public testing::Test {
 protected:
  static constexpr size_t kNumBytes = kMinMemoryBytes + 1;

  // Returns the end of the second request, for bytes in memory, which the
  // server answers with `message`.
  absl::Status Receive(const std::string& message, int offers_memory_of = 1) {
    TestTasks tasks(2);
    tasks.Start(0);
    FakeServer server(tasks.address(1), {.message = first_answer_,
                                         .more_messages = {message},
                                         .offers_memory_of = offers_memory_of,
                                         .finishes = false});
    WaitingReceiver first(8), second(kNumBytes);
    tasks.Request(0, 1, KeyOf(0), 8, first);
    absl::Status status = first.Wait();
    if (status.ok() && !message.empty()) {
      tasks.Request(0, 1, KeyOf(1), kNumBytes, second);
      status = second.Wait();
    }
    tasks.Stop(0);
    received_ = second.bytes();
    return status;
  }

  std::string first_answer_ =
      Frame({.id = 1, .length = 8, .is_last = true}, "abcdefgh");
  const std::vector<std::byte> lent_ = Pattern(kNumBytes);
  const uint64_t lease_ = 17;
  const MemoryPlace good_ = {
      .address = reinterpret_cast<uintptr_t>(lent_.data()),
      .num_bytes = kNumBytes,
      .lease_address = reinterpret_cast<uintptr_t>(&lease_),
      .lease = 17};
  std::vector<std::byte> received_;
};

TEST_F(ForgedFramesTest, EndTheStream) {
  const auto is_broken =
      IsInternal("task 1 (127.0.0.1:", "sent what was not asked for");
  EXPECT_THAT(Receive(Place(2, good_)), IsOk());
  EXPECT_TRUE(received_ == lent_);

  EXPECT_THAT(Receive(Place(1, good_)), is_broken);
  EXPECT_THAT(Receive(Place(3, good_)), is_broken);
  MemoryPlace place = good_;
  place.num_bytes = kNumBytes - 1;
  EXPECT_THAT(Receive(Place(2, place)), is_broken);
  place.num_bytes = ~uint64_t{0};
  EXPECT_THAT(Receive(Place(2, place)), is_broken);

  const std::string bytes = Bytes(good_);
  const FrameHeader header{
      .id = 2, .length = kMemoryPlaceBytes, .kind = FrameKind::kPlace};
  const ChangeFrame changes[] = {
      [](auto& h) { h.length = 31; }, [](auto& h) { h.offset = 1; },
      [](auto& h) { h.is_last = true; },
      [](auto& h) { h.code = absl::StatusCode::kAborted; },
      [](auto& h) { h.kind = static_cast<FrameKind>(3); }};
  for (const auto& change : changes) {
    FrameHeader wrong = header;
    change(wrong);
    EXPECT_THAT(Receive(Frame(wrong, bytes)), is_broken);
  }

  // Place after a part of the bytes.
  EXPECT_THAT(
      Receive(Frame({.id = 2, .length = 8}, "abcdefgh") + Place(2, good_)),
      is_broken);
  // Second offer.
  EXPECT_THAT(
      Receive(Frame({.length = kMemoryOfferBytes, .kind = FrameKind::kOffer},
                    Bytes(MemoryOffer{}))),
      is_broken);
  // Place for a request without permission.
  MemoryPlace small = good_;
  small.num_bytes = 8;
  first_answer_ = Place(1, small);
  EXPECT_THAT(Receive(""), is_broken);
}

TEST_F(ForgedFramesTest, AnOfferWithoutProofIsNotTakenUp) {
  const auto is_broken = IsInternal("sent what was not asked for");
  // Memory of another task, which the request must not read.
  EXPECT_THAT(Receive(Place(2, good_), /*offers_memory_of=*/0), is_broken);
  EXPECT_THAT(Receive(Frame({.id = 2, .length = kNumBytes, .is_last = true},
                            std::string(kNumBytes, 'x')),
                      /*offers_memory_of=*/0),
              IsOk());
}

TEST_F(ForgedFramesTest, ALeaseThatIsNotThereMeansThatTheBytesAreNot) {
  MemoryPlace place = good_;
  place.lease = 18;
  EXPECT_THAT(Receive(Place(2, place)),
              IsUnavailable("task 1 (127.0.0.1:", "took back the bytes"));
  place = good_;
  place.lease_address = 8;
  EXPECT_TRUE(absl::IsUnavailable(Receive(Place(2, place))));
}

TEST_F(ForgedFramesTest, BytesThatCannotBeReadMayBeSentInstead) {
  for (const uint64_t address :
       {uint64_t{0}, uint64_t{8}, ~uint64_t{0}, ~uint64_t{0} - kNumBytes}) {
    MemoryPlace place = good_;
    place.address = address;
    EXPECT_THAT(Receive(Place(2, place) +
                        Frame({.id = 2, .length = kNumBytes, .is_last = true},
                              std::string(kNumBytes, 'x'))),
                IsOk());
    EXPECT_EQ(received_.back(), std::byte{'x'});
  }
}

TEST_F(ForgedFramesTest, AnErrorWhileBytesAreReadEndsTheRequestOnce) {
  const std::vector<std::byte> lent = Pattern(kQueuedBytes);
  MemoryPlace place = good_;
  place.address = reinterpret_cast<uintptr_t>(lent.data());
  place.num_bytes = kQueuedBytes;
  TestTasks tasks(2);
  tasks.Start(0);
  FakeServer server(
      tasks.address(1),
      {.message = first_answer_,
       .more_messages = {Place(2, place),
                         Frame({.id = 2,
                                .length = 5,
                                .is_last = true,
                                .code = absl::StatusCode::kDataLoss},
                               "wrong") +
                             Frame({.id = 3, .length = 8, .is_last = true},
                                   "abcdefgh")},
       .offers_memory_of = 1,
       .finishes = false});
  WaitingReceiver first(8), third(8), again(8);
  HookedReceiver second(kQueuedBytes, [&](size_t num_received_bytes) {
    ASSERT_EQ(num_received_bytes, kMemoryBlockBytes);  // No part follows it.
    tasks.Request(0, 1, KeyOf(2), 8, third);
    EXPECT_THAT(third.Wait(), IsOk());  // The error has come by now.
    CancelRequest(tasks.transport(0).transfers(), KeyOf(1),
                  absl::AbortedError("enough"));
  });
  tasks.Request(0, 1, KeyOf(0), 8, first);
  ASSERT_THAT(first.Wait(), IsOk());
  tasks.Request(0, 1, KeyOf(1), kQueuedBytes, second);
  EXPECT_THAT(second.bytes().Wait(),
              StatusIs(absl::StatusCode::kDataLoss, "wrong"));
  // The key is free again.
  tasks.Request(0, 1, KeyOf(1), 8, again);
  tasks.Stop(0);
  EXPECT_TRUE(absl::IsCancelled(again.Wait())) << again.Wait();
}

}  // namespace same_host_test
}  // namespace tutti
