// Tests transfers between tasks, and the ends of those that fail. Tests with
// fake peers are in transfer_peers_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "remote/fake_services.h"
#include "remote/grpc/running_tasks_testing.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/transfers/receive_stream.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace transfers_test {

using testing::Each;

// Value of `cancel_grace`. This process may stand still for longer than the
// default, which would end other requests of the stream.
constexpr absl::Duration kNoLimit = absl::InfiniteDuration();

// Way of bytes from one task to the other.
enum class Path { kTcp, kSameHostSocket, kSameHostMemory };

class EveryWayTest : public testing::TestWithParam<Path> {
 protected:
  static void Choose(GrpcTransportOptions& options) {
    options.cancel_grace = kNoLimit;
    options.same_host_socket = GetParam() != Path::kTcp;
    options.same_host_memory = GetParam() == Path::kSameHostMemory;
  }
  static TestTasks::Change Way() {
    return [](int, GrpcTransportOptions& options) { Choose(options); };
  }
};
INSTANTIATE_TEST_SUITE_P(Paths, EveryWayTest,
                         testing::Values(Path::kTcp, Path::kSameHostSocket,
                                         Path::kSameHostMemory));

TEST_P(EveryWayTest, BytesOfEverySizeArriveAndTheLenderIsTold) {
  RunningTasks tasks(2, Way());
  for (const size_t num_bytes :
       {size_t{0}, size_t{1}, size_t{7}, size_t{1001}, size_t{1024},
        size_t{1025}, kMinMemoryBytes - 1, kMinMemoryBytes, kMinMemoryBytes + 1,
        size_t{4} << 20, (size_t{4} << 20) + 1, kLargeBytes + 3}) {
    ExpectArrive(tasks, num_bytes);
  }
}

TEST(TransfersTest, PartsAreWholeElementsOfEveryType) {
  // Cut frames inside elements.
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_frame_bytes = 1027;
  });
  for (const DType dtype : kAllDTypes) {
    const size_t num_bytes = SizeOf(dtype) * 100'003;
    const auto sizes = ExpectArrive(tasks, num_bytes, dtype);
    EXPECT_THAT(sizes, Each(testing::Truly([&](size_t size) {
                  return size > 0 && size % SizeOf(dtype) == 0;
                })));
  }
}

TEST_P(EveryWayTest, AThousandAtATimeArrive) {
  constexpr int kNumTransfers = 1000;
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.transfer_lanes = 2;
    Choose(options);
  });
  std::vector<std::vector<std::byte>> bytes(kNumTransfers);
  std::vector<WaitingSender> senders(kNumTransfers);
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int i = 0; i < kNumTransfers; ++i) {
    bytes[i] = Pattern(static_cast<size_t>(i) * i % 300'001);
    receivers.push_back(std::make_unique<WaitingReceiver>(bytes[i].size()));
    tasks.Request(0, 1, KeyOf(i), bytes[i].size(), *receivers[i]);
  }
  for (int i = kNumTransfers - 1; i >= 0; --i) {
    tasks.table(1).Provide(KeyOf(i),
                           {.bytes = bytes[i], .sender = &senders[i]});
  }
  for (int i = 0; i < kNumTransfers; ++i) {
    ASSERT_THAT(receivers[i]->Wait(), IsOk());
    ASSERT_THAT(senders[i].Wait(), IsOk());
    EXPECT_TRUE(receivers[i]->bytes() == bytes[i]) << i;
  }
}

TEST(TransfersTest, BothDirectionsAndATaskWithItselfWork) {
  RunningTasks tasks(2);
  for (int from = 0; from < 2; ++from) {
    for (int to = 0; to < 2; ++to) {
      ExpectArrive(tasks, 100'000, DType::kUint8, /*tag=*/0, from, to);
    }
  }
}

TEST(TransfersTest, ACancelledRequestThatWaitsIsWithdrawn) {
  RunningTasks tasks(2);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  tasks.table(1).WaitForRequests(1);
  TransferChannel& transfers = tasks.transport(0).transfers();
  const auto is_any = [](const BufKey&) { return true; };
  EXPECT_THAT(transfers.UnderWay(is_any), testing::ElementsAre(KeyOf(0)));
  CancelRequest(transfers, KeyOf(1), absl::AbortedError("another"));
  CancelRequest(transfers, KeyOf(0), absl::AbortedError("enough"));
  EXPECT_THAT(transfers.UnderWay(is_any), testing::IsEmpty());
  EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  tasks.table(1).WaitForRequests(0);
  EXPECT_EQ(tasks.table(1).num_withdrawn(), 1);

  // The stream and the key are free again.
  LentBytes lent(tasks, 4);
  WaitingReceiver second(4);
  tasks.Request(0, 1, KeyOf(0), 4, second);
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
}

TEST_P(EveryWayTest, ATransferCancelledAtAnyTimeEndsAndFreesTheLender) {
  RunningTasks tasks(2, Way());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  for (int i = 0; i < 20; ++i) {
    WaitingSender sender;
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .sender = &sender});
    WaitingReceiver receiver(kLargeBytes);
    tasks.Request(0, 1, KeyOf(i), kLargeBytes, receiver);
    receiver.WaitForPart();
    CancelRequest(tasks.transport(0).transfers(), KeyOf(i),
                  absl::AbortedError("enough"));
    const absl::Status status = receiver.Wait();
    EXPECT_TRUE(status.ok() || absl::IsAborted(status)) << status;
    const absl::Status end = sender.Wait();
    EXPECT_TRUE(end.ok() || end == absl::AbortedError("enough")) << end;
  }
}

TEST_P(EveryWayTest, ABorrowerThatRefusesAPartIsToldItsReason) {
  RunningTasks tasks(2, Way());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  for (int i = 0; i < 3; ++i) {
    WaitingSender sender;
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .sender = &sender});
    RefusingReceiver receiver(/*offset=*/0, absl::DataLossError("not these"));
    tasks.Request(0, 1, KeyOf(i), kLargeBytes, receiver);
    EXPECT_THAT(receiver.Wait(),
                StatusIs(absl::StatusCode::kDataLoss, "not these"));
    const absl::Status end = sender.Wait();
    EXPECT_TRUE(end.ok() || end == absl::DataLossError("not these")) << end;
  }
}

// Takes its first part when the test says so.
class DelayedReceiver final : public Receiver {
 public:
  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> part) override {
    if (offset == 0) {
      begun_.DecrementCount();
      may_go_on_.Wait();
    }
    num_bytes_ += part.size();
    return absl::OkStatus();
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    status_ = std::move(status);
    reported_.DecrementCount();
  }

  void WaitForPart() { begun_.Wait(); }
  void GoOn() { may_go_on_.DecrementCount(); }
  absl::Status Wait() {
    reported_.Wait();
    return status_;
  }
  size_t num_bytes() const { return num_bytes_; }  // Call after Wait().

 private:
  BlockingCounter begun_{1}, may_go_on_{1}, reported_{1};
  size_t num_bytes_ = 0;
  absl::Status status_;
};

TEST(TransfersTest, ManyLongReasonsFitIntoMessagesHoweverSmallTheirBound) {
  constexpr int kNumRequests = 512;
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_frame_bytes = size_t{64} << 10;
    options.same_host_memory = false;
  });
  tasks.StartAll();
  LentBytes lent(tasks, kLargeBytes, -1);
  DelayedReceiver large;
  tasks.Request(0, 1, KeyOf(-1), kLargeBytes, large);
  large.WaitForPart();
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int i = 0; i < kNumRequests; ++i) {
    receivers.push_back(std::make_unique<WaitingReceiver>(4));
    tasks.Request(0, 1, KeyOf(i), 4, *receivers[i]);
  }
  tasks.table(1).WaitForRequests(kNumRequests);
  const auto reason = [](int i) {
    return absl::AbortedError(absl::StrCat(i, std::string(4000, 'x')));
  };
  for (int i = 0; i < kNumRequests; ++i) {
    CancelRequest(tasks.transport(0).transfers(), KeyOf(i), reason(i));
  }
  tasks.table(1).WaitForRequests(0);  // Every reason is queued now.
  large.GoOn();
  EXPECT_THAT(large.Wait(), IsOk());
  EXPECT_EQ(large.num_bytes(), kLargeBytes);
  EXPECT_THAT(lent.Wait(), IsOk());
  for (int i = 0; i < kNumRequests; ++i) {
    EXPECT_EQ(receivers[i]->Wait(), reason(i));
  }
}

TEST(TransfersTest, ALoanOfAnotherSizeEndsBothSides) {
  RunningTasks tasks(2);
  LentBytes lent(tasks, 8);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  const auto is_wrong = IsInternal("8 bytes are lent");
  EXPECT_THAT(receiver.Wait(), is_wrong);
  EXPECT_THAT(lent.Wait(), is_wrong);
}

TEST(TransfersTest, TheKeyOfACancelledRequestIsFreeBeforeItsBorrowerIsTold) {
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.cancel_grace = kNoLimit;
  });
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender, second_lender;
  DelayedReceiver first;
  WaitingReceiver second(4);
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, first);
  first.WaitForPart();
  CancelRequest(tasks.transport(0).transfers(), KeyOf(0),
                absl::AbortedError("enough"));
  tasks.Request(0, 1, KeyOf(0), 4, second);
  first.GoOn();
  EXPECT_THAT(first.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  const absl::Status end = sender.Wait();
  EXPECT_TRUE(end.ok() || end == absl::AbortedError("enough")) << end;
  tasks.table(1).Provide(KeyOf(0), {.bytes = absl::MakeSpan(bytes).first(4),
                                    .sender = &second_lender});
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_THAT(second_lender.Wait(), IsOk());
}

TEST(TransfersTest, ASizeThatIsNoNumberOfElementsIsRefused) {
  RunningTasks tasks(2);
  WaitingReceiver receiver(6);
  tasks.Request(0, 1, KeyOf(0), 6, receiver, DType::kFloat32);
  EXPECT_THAT(receiver.Wait(), IsInvalidArgument("float32"));
  WaitingReceiver other(6);
  tasks.Request(0, 1, KeyOf(0), 6, other, static_cast<DType>(99));
  EXPECT_THAT(other.Wait(), IsInvalidArgument("99"));
}

TEST(TransfersTest, ThePeerThatGoesAwayIsNamed) {
  RunningTasks tasks(2);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  tasks.table(1).WaitForRequests(1);
  tasks.Stop(1);
  EXPECT_THAT(receiver.Wait(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("task 1 (", tasks.address(1),
                                    "): connection closed")));
}

TEST(TransfersTest, ShutdownEndsRequestsAndWithdrawsThem) {
  RunningTasks tasks(2);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  tasks.table(1).WaitForRequests(1);
  tasks.Stop(0);
  EXPECT_THAT(receiver.Wait(), IsCancelled("shut down"));
  tasks.table(1).WaitForRequests(0);
}

TEST(TransfersTest, ATaskWithTooManyRequestsIsRefusedMore) {
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_transfers = 3;
  });
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int i = 0; i < 4; ++i) {
    receivers.push_back(std::make_unique<WaitingReceiver>(4));
    tasks.Request(0, 1, KeyOf(i), 4, *receivers[i]);
  }
  EXPECT_THAT(receivers[3]->Wait(),
              IsResourceExhausted("task 0", "3 requests"));
  // Room for another one once one has ended.
  LentBytes lent(tasks, 4);
  EXPECT_THAT(receivers[0]->Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  WaitingReceiver fifth(4);
  tasks.Request(0, 1, KeyOf(5), 4, fifth);
  tasks.table(1).WaitForRequests(3);
  tasks.Stop(0);
}

TEST(TransfersTest, WhatIsAskedOfAProcessThatIsDroppedEnds) {
  RunningTasks tasks(2);
  ExpectArrive(tasks, 4);  // The peer is known now.
  WaitingReceiver second(4), third(4);
  tasks.Request(0, 1, KeyOf(1), 4, second);
  tasks.table(1).WaitForRequests(1);
  const absl::Status lost = absl::UnavailableError("task 1 was lost");
  Transport& transport = tasks.transport(0);
  const uint64_t incarnation = tasks.incarnation(1);
  transport.Drop({.task = 1, .incarnation = incarnation + 1}, lost);
  tasks.Request(0, 1, KeyOf(2), 4, third);
  tasks.table(1).WaitForRequests(2);
  transport.Drop({.task = 1, .incarnation = incarnation}, lost);
  EXPECT_EQ(second.Wait(), lost);
  EXPECT_EQ(third.Wait(), lost);
  tasks.table(1).WaitForRequests(0);
}

TEST(TransfersTest, WhatIsAskedForWhileAStreamEndsEndsWithItOrComes) {
  constexpr int kNumRounds = 200;
  constexpr int kNumRequests = 64;
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingSender sender;
  RunningTasks tasks(2);
  const absl::Status lost = absl::UnavailableError("task 1 was lost");
  for (int round = 0; round < kNumRounds; ++round) {
    const int first_tag = round * kNumRequests;
    std::vector<std::unique_ptr<WaitingReceiver>> receivers;
    for (int i = 0; i < kNumRequests; ++i) {
      const BufKey key = KeyOf(first_tag + i);
      tasks.table(1).Provide(key, {.bytes = bytes, .sender = &sender});
      receivers.push_back(std::make_unique<WaitingReceiver>(4));
      tasks.Request(0, 1, key, 4, *receivers[i]);
      if (i > 0) continue;
      EXPECT_THAT(receivers[0]->Wait(), IsOk());
      tasks.transport(0).Drop({.task = 1, .incarnation = tasks.incarnation(1)},
                              lost);
    }
    for (const auto& receiver : receivers) {
      EXPECT_THAT(receiver->Wait(), testing::AnyOf(IsOk(), lost));
    }
  }
}

// Counts its deliveries.
class CountingReceiver final : public Receiver {
 public:
  void OnDelivery(int32_t /*id*/, absl::Status /*status*/,
                  Delivery /*delivery*/) override {
    ++num_reported_;
  }
  int num_reported() const { return num_reported_; }

 private:
  std::atomic<int> num_reported_ = 0;
};

TEST(TransfersTest, WhatIsCancelledWhileAStreamEndsIsToldOnce) {
  constexpr int kNumRounds = 1000;
  constexpr int kNumRequests = 64;
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingSender sender;
  WaitingReceiver first(4);
  std::vector<CountingReceiver> receivers(kNumRounds * kNumRequests);
  RunningTasks tasks(2);
  tasks.table(1).Provide(KeyOf(-1), {.bytes = bytes, .sender = &sender});
  tasks.Request(0, 1, KeyOf(-1), 4, first);
  EXPECT_THAT(first.Wait(), IsOk());  // The peer is known now.
  Transport& transport = tasks.transport(0);
  for (int round = 0; round < kNumRounds; ++round) {
    const int begin = round * kNumRequests;
    const int end = begin + kNumRequests;
    for (int i = begin; i < end; ++i) {
      tasks.Request(0, 1, KeyOf(i), 4, receivers[i]);
    }
    std::thread dropper([&] {
      transport.Drop({.task = 1, .incarnation = tasks.incarnation(1)},
                     absl::UnavailableError("task 1 was lost"));
    });
    for (int i = begin; i < end; ++i) {
      CancelRequest(transport.transfers(), KeyOf(i),
                    absl::AbortedError("enough"));
    }
    dropper.join();
  }
  tasks.Stop(0);
  for (const CountingReceiver& receiver : receivers) {
    ASSERT_EQ(receiver.num_reported(), 1);
  }
}

}  // namespace transfers_test
}  // namespace tutti
