// Tests of transfers between tasks, and of what their streams are made of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/tasks_testing.h"
#include "remote/grpc/transfers/loan.h"
#include "remote/grpc/transfers/part_feeder.h"
#include "remote/grpc/transfers/receive_stream.h"
#include "remote/grpc/transfers/transfer_sender.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/peer_memory.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace transfer_streams_test {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Not;

// --- Parts of streams --------------------------------------------------------

// Reads the lease when its bytes are released.
class LookingSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {
    lease_then = *lease;
  }

  const uint64_t* lease = nullptr;
  uint64_t lease_then = ~uint64_t{0};
};

TEST(LoanTest, ALeaseHoldsUntilJustBeforeTheLenderIsTold) {
  SimulatedEnvironment simulated(/*seed=*/1);
  InFlight in_flight;
  LookingSender sender;
  auto loan = std::make_shared<Loan>(Delivery{.sender = &sender},
                                     simulated.get().queue, &in_flight);
  const MemoryPlace place = loan->Lease(*simulated.get().random);
  EXPECT_NE(place.lease, 0);
  std::memcpy(&sender.lease, &place.lease_address, sizeof(sender.lease));
  loan.reset();
  EXPECT_EQ(*sender.lease, place.lease);
  simulated.RunAll();
  EXPECT_EQ(sender.lease_then, 0);
  in_flight.Wait();
}

class IgnoringSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {}
};

class LoanWatchTest : public testing::Test {
 protected:
  LoanWatchTest() { options_.environment = simulated_.get(); }
  ~LoanWatchTest() override {
    simulated_.RunAll();
    sender_side_.Wait();
  }

  std::shared_ptr<Loan> MakeLoan() {
    return std::make_shared<Loan>(Delivery{.sender = &sender_},
                                  simulated_.get().queue,
                                  &sender_side_.in_flight());
  }
  void Watch(std::shared_ptr<Loan> loan) {
    sender_side_.WatchSend(std::move(loan), "peer");
  }
  void PassGrace() { simulated_.Advance(options_.cancel_grace); }

  SimulatedEnvironment simulated_{/*seed=*/1};
  GrpcTransportOptions options_;
  IgnoringSender sender_;
  std::vector<std::string> broken_;
  TransferSender sender_side_{
      &options_, /*service=*/nullptr,
      [this](const std::string& peer) { broken_.push_back(peer); }};
};

TEST_F(LoanWatchTest, ALoanThatIsReleasedInTimeBreaksNothing) {
  Watch(MakeLoan());
  EXPECT_EQ(simulated_.num_alarms(), 0u);
  auto held = MakeLoan();
  Watch(held);
  held.reset();
  PassGrace();
  EXPECT_TRUE(broken_.empty());
}

TEST_F(LoanWatchTest, ALoanThatIsHeldBreaksTheConnectionOfItsPeer) {
  auto held = MakeLoan();
  Watch(held);
  EXPECT_TRUE(broken_.empty());
  PassGrace();
  EXPECT_EQ(broken_, std::vector<std::string>{"peer"});
}

class Collector final : public Receiver {
 public:
  absl::Status OnPart(int32_t id, size_t offset,
                      absl::Span<const std::byte> part) override {
    if (id != 5 || offset != bytes.size()) {
      return absl::InternalError("wrong place");
    }
    bytes.insert(bytes.end(), part.begin(), part.end());
    sizes.push_back(part.size());
    return result;
  }
  void OnDelivery(int32_t, absl::Status, Delivery) override {}

  std::vector<std::byte> bytes;
  std::vector<size_t> sizes;
  absl::Status result;
};

// Feeds 0, 1, 2, ... in pieces of these sizes.
Collector Fed(DType dtype, const std::vector<size_t>& sizes) {
  Collector collector;
  PartFeeder feeder({.dtype = dtype, .receiver = &collector, .id = 5});
  std::byte next{0};
  for (const size_t size : sizes) {
    std::vector<std::byte> piece(size);
    for (std::byte& byte : piece) {
      byte = next;
      next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
    }
    EXPECT_THAT(feeder.Feed(piece), IsOk());
  }
  return collector;
}

TEST(PartFeederTest, GivesWholeElementsWhereTheyLie) {
  EXPECT_THAT(Fed(DType::kFloat32, {8, 4, 16}).sizes, ElementsAre(8, 4, 16));
}

TEST(PartFeederTest, MendsElementsThatAreTorn) {
  EXPECT_THAT(Fed(DType::kFloat32, {6, 6}).sizes, ElementsAre(4, 4, 4));
  EXPECT_THAT(Fed(DType::kFloat64, {1, 1, 1, 1, 1, 1, 1, 1}).sizes,
              ElementsAre(8));
  EXPECT_THAT(Fed(DType::kFloat16, {1, 0, 4, 0, 1}).sizes,
              ElementsAre(2, 2, 2));
}

TEST(PartFeederTest, AllBytesComeInOrderHoweverTheyAreCut) {
  for (const DType dtype : kAllDTypes) {
    for (size_t piece = 1; piece < 20; ++piece) {
      const size_t total = 48;
      std::vector<size_t> sizes(total / piece, piece);
      sizes.push_back(total % piece);
      const Collector collector = Fed(dtype, sizes);
      ASSERT_EQ(collector.bytes.size(), total);
      for (size_t i = 0; i < total; ++i) {
        EXPECT_EQ(collector.bytes[i], static_cast<std::byte>(i));
      }
      for (const size_t size : collector.sizes) {
        EXPECT_EQ(size % SizeOf(dtype), 0);
      }
    }
  }
}

TEST(PartFeederTest, PassesOnTheBorrowersError) {
  Collector collector;
  collector.result = absl::DataLossError("no");
  PartFeeder feeder({.dtype = DType::kInt32, .receiver = &collector, .id = 5});
  const std::byte bytes[6] = {};
  EXPECT_THAT(feeder.Feed(bytes), StatusIs(absl::StatusCode::kDataLoss, "no"));
}

TEST(RecordQueueTest, RecordsShareAMessageUpToItsLargestSize) {
  constexpr size_t kMostRecords = kMaxRecordsBytes / kRecordBytes;
  RecordQueue queue;
  for (size_t i = 0; i < kMostRecords + 1; ++i) {
    queue.Add({.kind = RecordKind::kRead, .id = i});
  }
  EXPECT_EQ(queue.TakeMessage().size(), kMaxRecordsBytes);
  EXPECT_EQ(queue.TakeMessage().size(), kRecordBytes);
  EXPECT_TRUE(queue.empty());
}

TEST(RecordQueueTest, TheTextOfAStatusFollowsItsRecord) {
  RecordQueue queue;
  queue.Add({.kind = RecordKind::kCancel, .id = 1, .num_bytes = 4}, "late");
  queue.Add({.kind = RecordKind::kRead, .id = 2});
  const std::string message = queue.TakeMessage();
  ASSERT_EQ(message.size(), 2 * kRecordBytes + 4);
  EXPECT_EQ(message.substr(kRecordBytes, 4), "late");
}

// --- Transfers ---------------------------------------------------------------

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
    receivers.push_back(
        std::make_unique<RequestedBytes>(tasks, bytes[i].size(), i));
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
  RequestedBytes receiver(tasks, 4);
  tasks.table(1).WaitForRequests(1);
  TransferChannel& transfers = tasks.transport(0).transfers();
  const auto is_any = [](const BufKey&) { return true; };
  EXPECT_THAT(transfers.UnderWay(is_any), testing::ElementsAre(KeyOf(0)));
  CancelRequest(transfers, KeyOf(1), absl::AbortedError("another"));
  CancelRequest(transfers, KeyOf(0), absl::AbortedError("enough"));
  EXPECT_THAT(transfers.UnderWay(is_any), testing::IsEmpty());
  EXPECT_EQ(receiver.Wait(), absl::AbortedError("enough"));
  tasks.table(1).WaitForRequests(0);
  EXPECT_EQ(tasks.table(1).num_withdrawn(), 1);

  // The stream and the key are free again.
  OfferedBytes lent(tasks, 4);
  RequestedBytes second(tasks, 4);
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
}

// Streams and connections close after a while without a use.
TEST(TransfersTest, WhatWasIdleIsOpenedAgain) {
  SimulatedEnvironment simulated(/*seed=*/1);
  RunningTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  for (int tag = 0; tag < 5; ++tag) {
    OfferedBytes lent(tasks, kLargeBytes, tag);
    RequestedBytes receiver(tasks, kLargeBytes, tag);
    EXPECT_THAT(receiver.Wait(), IsOk());
    EXPECT_THAT(lent.Wait(), IsOk());
    EXPECT_THAT(Call(tasks, 0, 1), IsOk());
    for (int looks = 0; looks < tag; ++looks) {
      simulated.Advance(DefaultTime("idle"));
    }
  }
}

TEST_P(EveryWayTest, ATransferCancelledAtAnyTimeEndsAndFreesTheLender) {
  RunningTasks tasks(2, Way());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  for (int i = 0; i < 20; ++i) {
    WaitingSender sender;
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .sender = &sender});
    RequestedBytes receiver(tasks, kLargeBytes, i);
    receiver.WaitForPart();
    CancelRequest(tasks.transport(0).transfers(), KeyOf(i),
                  absl::AbortedError("enough"));
    const absl::Status status = receiver.Wait();
    EXPECT_TRUE(status.ok() || absl::IsAborted(status)) << status;
    const absl::Status end = sender.Wait();
    EXPECT_TRUE(end.ok() || end == absl::AbortedError("enough")) << end;
  }
}

TEST_P(EveryWayTest, BytesThatNobodyReadsAreReleasedWhenTheirSenderEnds) {
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    Choose(options);
    options.cancel_grace = absl::ZeroDuration();
  });
  OfferedBytes lent(tasks, kLargeBytes);
  PausingReceiver receiver(kLargeBytes);
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, receiver);
  receiver.WaitForPause();
  const absl::Status late = absl::DeadlineExceededError("late");
  CancelRequest(tasks.transport(1).transfers(), KeyOf(0), late);
  EXPECT_EQ(lent.Wait(), late);
  receiver.GoOn();
  const absl::Status end = receiver.Wait();
  EXPECT_TRUE(end == late || absl::IsUnavailable(end)) << end;
}

TEST_P(EveryWayTest, TheEndOfASenderTellsItsReceiverWhyAndHurtsNoOther) {
  RunningTasks tasks(2, Way());
  ExpectArrive(tasks, 1, DType::kUint8, /*tag=*/99);
  OfferedBytes lent(tasks, kLargeBytes);
  PausingReceiver receiver(kLargeBytes);
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, receiver);
  receiver.WaitForPause();
  OfferedBytes other_lent(tasks, kLargeBytes, 1);
  RequestedBytes waiting(tasks, 4, 2), other(tasks, kLargeBytes, 1);
  tasks.table(1).WaitForRequests(1);
  const absl::Status late = absl::DeadlineExceededError("late");
  tasks.transport(1).transfers().Cancel(
      [](const BufKey& key) { return key.tag != 1; }, late);
  receiver.GoOn();
  EXPECT_EQ(receiver.Wait(), late);
  EXPECT_EQ(lent.Wait(), late);
  EXPECT_THAT(other.Wait(), IsOk());
  EXPECT_THAT(other_lent.Wait(), IsOk());

  // Ended before it was offered.
  OfferedBytes comes_late(tasks, 4, 2);
  EXPECT_EQ(comes_late.Wait(), late);
  EXPECT_EQ(waiting.Wait(), late);
  // Memory that was taken back is read again afterwards.
  const auto sizes = ExpectArrive(tasks, kLargeBytes);
  if (GetParam() == Path::kSameHostMemory) {
    EXPECT_THAT(sizes, Each(kMemoryBlockBytes));
  }
}

TEST_P(EveryWayTest, ABorrowerThatRefusesAPartIsToldItsReason) {
  RunningTasks tasks(2, Way());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  for (int i = 0; i < 3; ++i) {
    WaitingSender sender;
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .sender = &sender});
    WaitingReceiver receiver(
        kLargeBytes, [](size_t) { return absl::DataLossError("not these"); });
    tasks.Request(0, 1, KeyOf(i), kLargeBytes, receiver);
    EXPECT_EQ(receiver.Wait(), absl::DataLossError("not these"));
    const absl::Status end = sender.Wait();
    EXPECT_TRUE(end.ok() || end == absl::DataLossError("not these")) << end;
  }
}

TEST(TransfersTest, ManyLongReasonsFitIntoMessagesHoweverSmallTheirBound) {
  constexpr int kNumRequests = 512;
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_frame_bytes = size_t{64} << 10;
    options.same_host_memory = false;
  });
  tasks.StartAll();
  OfferedBytes lent(tasks, kLargeBytes, -1);
  PausingReceiver large(kLargeBytes);
  tasks.Request(0, 1, KeyOf(-1), kLargeBytes, large);
  large.WaitForPause();
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int i = 0; i < kNumRequests; ++i) {
    receivers.push_back(std::make_unique<RequestedBytes>(tasks, 4, i));
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
  EXPECT_TRUE(large.bytes() == lent.bytes());
  EXPECT_THAT(lent.Wait(), IsOk());
  for (int i = 0; i < kNumRequests; ++i) {
    EXPECT_EQ(receivers[i]->Wait(), reason(i));
  }
}

TEST(TransfersTest, ALoanOfAnotherSizeEndsBothSides) {
  RunningTasks tasks(2);
  OfferedBytes lent(tasks, 8);
  RequestedBytes receiver(tasks, 4);
  const auto is_wrong = IsInternal("8 bytes are lent");
  EXPECT_THAT(receiver.Wait(), is_wrong);
  EXPECT_THAT(lent.Wait(), is_wrong);
}

TEST(TransfersTest, TheKeyOfACancelledRequestIsFreeBeforeItsBorrowerIsTold) {
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.cancel_grace = kNoLimit;
  });
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender, second_sender;
  PausingReceiver first(kLargeBytes);
  WaitingReceiver second(4);
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, first);
  first.WaitForPause();
  CancelRequest(tasks.transport(0).transfers(), KeyOf(0),
                absl::AbortedError("enough"));
  tasks.Request(0, 1, KeyOf(0), 4, second);
  first.GoOn();
  EXPECT_EQ(first.Wait(), absl::AbortedError("enough"));
  const absl::Status end = sender.Wait();
  EXPECT_TRUE(end.ok() || end == absl::AbortedError("enough")) << end;
  tasks.table(1).Provide(KeyOf(0), {.bytes = absl::MakeSpan(bytes).first(4),
                                    .sender = &second_sender});
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_THAT(second_sender.Wait(), IsOk());
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
  RequestedBytes receiver(tasks, 4);
  tasks.table(1).WaitForRequests(1);
  tasks.Stop(1);
  EXPECT_THAT(receiver.Wait(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("task 1 (", tasks.address(1),
                                    "): connection closed")));
}

TEST(TransfersTest, ShutdownEndsRequestsAndWithdrawsThem) {
  RunningTasks tasks(2);
  RequestedBytes receiver(tasks, 4);
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
    receivers.push_back(std::make_unique<RequestedBytes>(tasks, 4, i));
  }
  EXPECT_THAT(receivers[3]->Wait(),
              IsResourceExhausted("task 0", "3 requests"));
  // Room for another one once one has ended.
  OfferedBytes lent(tasks, 4);
  EXPECT_THAT(receivers[0]->Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  RequestedBytes fifth(tasks, 4, 5);
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

// --- Within a host -----------------------------------------------------------

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
  OfferedBytes lent(tasks, 2 * kMemoryDirectBytes + 1);
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
  OfferedBytes lent(tasks, kQueuedBytes);
  bool is_forbidden = false;
  WaitingReceiver receiver(kQueuedBytes, [&](size_t num_received) {
    if (num_received == 2 * kMemoryBlockBytes) {
      is_forbidden = ForbidSystemCall(SYS_process_vm_readv);
    }
    return absl::OkStatus();
  });
  tasks.Request(0, 1, KeyOf(0), kQueuedBytes, receiver);
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == lent.bytes());
  if (!is_forbidden) GTEST_SKIP() << "this system does not forbid it";
  EXPECT_THAT(receiver.part_sizes(),
              Not(ElementsAreArray(Blocks(kQueuedBytes))));
}

TEST(SameHostTest, ATransferCancelledWhileItIsReadEndsWithTheReason) {
  ConnectedTasks tasks;
  OfferedBytes lent(tasks, kQueuedBytes);
  PausingReceiver receiver(kQueuedBytes);
  tasks.Request(0, 1, KeyOf(0), kQueuedBytes, receiver);
  receiver.WaitForPause();
  CancelRequest(tasks.transport(0).transfers(), KeyOf(0),
                absl::AbortedError("enough"));
  EXPECT_EQ(lent.Wait(), absl::AbortedError("enough"));
  receiver.GoOn();
  EXPECT_EQ(receiver.Wait(), absl::AbortedError("enough"));
  EXPECT_EQ(receiver.part_sizes().size(), 1u);
}

TEST(SameHostTest, BytesThatWereTakenBackBeforeTheyWereReadAreNoResult) {
  ConnectedTasks tasks;
  OfferedBytes lent(tasks, kQueuedBytes);
  PausingReceiver receiver(kQueuedBytes, /*pause_at=*/kQueuedBytes);
  tasks.Request(0, 1, KeyOf(0), kQueuedBytes, receiver);
  receiver.WaitForPause();
  tasks.Stop(1);
  EXPECT_THAT(lent.Wait(), IsUnavailable("connection closed"));
  receiver.GoOn();
  EXPECT_THAT(receiver.Wait(), IsUnavailable("task 1 ("));
}

TEST(SameHostTest, AReceiverThatIsShutDownWhileItReadsEndsTheTransfer) {
  ConnectedTasks tasks;
  OfferedBytes lent(tasks, kLargeBytes);
  PausingReceiver receiver(kLargeBytes);
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, receiver);
  receiver.WaitForPause();
  std::thread stops([&] { tasks.Stop(0); });
  // The stream closes before the read has ended.
  EXPECT_THAT(lent.Wait(), IsUnavailable("connection closed"));
  receiver.GoOn();
  stops.join();
  EXPECT_TRUE(absl::IsCancelled(receiver.Wait()));
}

std::string Request(uint64_t id, int tag, size_t num_bytes) {
  return RequestRecord(id, tag, num_bytes, /*may_read_memory=*/true);
}

TEST(SameHostTest, RecordsAboutMemoryThatIsNotLentEndTheStream) {
  RunningTasks tasks(2);
  const auto sends = [&](const std::string& message) {
    return CallAs({tasks.address(1), 1, Way::kUnixSocket}, GoodFields(0, 1),
                  "/tutti.Transfers/Pull", message)
        .error_code();
  };
  EXPECT_EQ(sends(Request(1, 0, 4)), grpc::StatusCode::OK);
  for (const RecordKind kind : {RecordKind::kRead, RecordKind::kSend}) {
    const std::string record = Bytes(TransferRecord{.kind = kind, .id = 1});
    EXPECT_EQ(sends(record), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(sends(Request(1, 0, 4) + record), grpc::StatusCode::INTERNAL);
  }
  EXPECT_EQ(sends(Bytes(TransferRecord{.kind = static_cast<RecordKind>(5)})),
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

// Fake task 1, which has one good answer and then sends invalid frames.
class ForgedFramesTest : public testing::Test {
 protected:
  static constexpr size_t kNumBytes = kMinMemoryBytes + 1;

  // Returns the end of the second request, for bytes in memory, which the
  // server answers with `message`.
  absl::Status Receive(const std::string& message, Way way = Way::kUnixSocket) {
    TestTasks tasks(2);
    tasks.Start(0);
    FakeServer server(tasks.address(1), {.message = first_answer_,
                                         .more_messages = {message},
                                         .way = way,
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
  const std::vector<std::byte> offered_ = Pattern(kNumBytes);
  const uint64_t lease_ = 17;
  const MemoryPlace good_ = {
      .address = reinterpret_cast<uintptr_t>(offered_.data()),
      .num_bytes = kNumBytes,
      .lease_address = reinterpret_cast<uintptr_t>(&lease_),
      .lease = 17};
  std::vector<std::byte> received_;
};

TEST_F(ForgedFramesTest, EndTheStream) {
  const auto is_broken =
      IsInternal("task 1 (127.0.0.1:", "sent what was not asked for");
  EXPECT_THAT(Receive(Place(2, good_)), IsOk());
  EXPECT_TRUE(received_ == offered_);

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
      [](auto& h) { h.kind = static_cast<FrameKind>(2); }};
  for (const auto& change : changes) {
    FrameHeader wrong = header;
    change(wrong);
    EXPECT_THAT(Receive(Frame(wrong, bytes)), is_broken);
  }

  // Place after a part of the bytes.
  EXPECT_THAT(
      Receive(Frame({.id = 2, .length = 8}, "abcdefgh") + Place(2, good_)),
      is_broken);
  // Place for a request without permission.
  MemoryPlace small = good_;
  small.num_bytes = 8;
  first_answer_ = Place(1, small);
  EXPECT_THAT(Receive(""), is_broken);
}

TEST_F(ForgedFramesTest, MemoryIsReadOfTheProcessAtAUnixSocketAlone) {
  EXPECT_THAT(Receive(Place(2, good_), Way::kTcp),
              IsInternal("sent what was not asked for"));
  EXPECT_THAT(Receive(Frame({.id = 2, .length = kNumBytes, .is_last = true},
                            std::string(kNumBytes, 'x')),
                      Way::kTcp),
              IsOk());
}

TEST_F(ForgedFramesTest, ALeaseThatIsNotThereMeansThatTheBytesAreNot) {
  MemoryPlace place = good_;
  place.lease = 18;
  // The sender tells why.
  EXPECT_EQ(
      Receive(Place(2, place) + Frame({.id = 2,
                                       .length = 4,
                                       .is_last = true,
                                       .code = absl::StatusCode::kAborted},
                                      "late")),
      absl::AbortedError("late"));
  place = good_;
  place.lease_address = 8;
  EXPECT_THAT(Receive(Place(2, place)),
              IsUnavailable("task 1 (127.0.0.1:", "cannot be read any more"));
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
       .way = Way::kUnixSocket,
       .finishes = false});
  WaitingReceiver first(8), third(8), again(8);
  WaitingReceiver second(kQueuedBytes, [&](size_t num_received) {
    EXPECT_EQ(num_received, kMemoryBlockBytes);  // No part follows it.
    tasks.Request(0, 1, KeyOf(2), 8, third);
    EXPECT_THAT(third.Wait(), IsOk());  // The error has come by now.
    CancelRequest(tasks.transport(0).transfers(), KeyOf(1),
                  absl::AbortedError("enough"));
    return absl::OkStatus();
  });
  tasks.Request(0, 1, KeyOf(0), 8, first);
  ASSERT_THAT(first.Wait(), IsOk());
  tasks.Request(0, 1, KeyOf(1), kQueuedBytes, second);
  EXPECT_EQ(second.Wait(), absl::DataLossError("wrong"));
  // The key is free again.
  tasks.Request(0, 1, KeyOf(1), 8, again);
  tasks.Stop(0);
  EXPECT_TRUE(absl::IsCancelled(again.Wait())) << again.Wait();
}

}  // namespace transfer_streams_test
}  // namespace tutti
