// Transfers between tasks, and how they end that do not arrive.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

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
#include "framework/blocking_counter.h"
#include "framework/dtype.h"
#include "framework/environment.h"
#include "framework/peer_access.h"
#include "remote/fake_services.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/file_descriptor.h"
#include "remote/grpc/grpc_transport.h"
#include "remote/grpc/listen_address.h"
#include "remote/grpc/receive_stream.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/transfer_wire.h"
#include "tests/simulated_environment.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// One that no socket buffer holds.
constexpr size_t kLargeBytes = size_t{64} << 20;

std::string Request(uint64_t id, int tag, size_t num_bytes) {
  const EncodedRecord record = Encode(TransferRecord{.id = id,
                                                     .key = KeyOf(tag),
                                                     .num_bytes = num_bytes,
                                                     .dtype = DType::kUint8});
  return std::string(reinterpret_cast<const char*>(record.data()),
                     record.size());
}

std::string Cancel(uint64_t id) {
  constexpr absl::string_view kMessage = "enough";
  const EncodedRecord record =
      Encode(TransferRecord{.kind = RecordKind::kCancel,
                            .id = id,
                            .num_bytes = kMessage.size(),
                            .code = absl::StatusCode::kAborted});
  return absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(record.data()),
                        record.size()),
      kMessage);
}

// How bytes get from one task to the other.
enum class Path { kTcp, kSameHostSocket, kSameHostMemory };

class EveryWayTest : public testing::TestWithParam<Path> {
 protected:
  static void Choose(GrpcTransportOptions& options) {
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
  TestTasks tasks(2, Way());
  tasks.StartAll();
  for (const size_t num_bytes :
       {size_t{0}, size_t{1}, size_t{7}, size_t{1001}, size_t{1024},
        size_t{1025}, kMinMemoryBytes - 1, kMinMemoryBytes, kMinMemoryBytes + 1,
        size_t{4} << 20, (size_t{4} << 20) + 1, kLargeBytes + 3}) {
    const std::vector<std::byte> bytes = Pattern(num_bytes);
    WaitingLender lender;
    WaitingBorrower borrower(num_bytes);
    tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
    tasks.Request(0, 1, KeyOf(0), num_bytes, borrower);
    EXPECT_THAT(borrower.Wait(), IsOk());
    EXPECT_THAT(lender.Wait(), IsOk());
    EXPECT_TRUE(borrower.bytes() == bytes) << num_bytes;
  }
}

TEST(TransfersTest, PartsAreWholeElementsOfEveryType) {
  // Frames are cut where elements are not.
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_frame_bytes = 1027;
  });
  tasks.StartAll();
  for (const DType dtype : kAllDTypes) {
    const size_t num_bytes = SizeOf(dtype) * 100'003;
    const std::vector<std::byte> bytes = Pattern(num_bytes);
    WaitingLender lender;
    WaitingBorrower borrower(num_bytes);
    tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
    tasks.Request(0, 1, KeyOf(0), num_bytes, borrower, dtype);
    EXPECT_THAT(borrower.Wait(), IsOk());
    EXPECT_THAT(lender.Wait(), IsOk());
    EXPECT_TRUE(borrower.bytes() == bytes) << Name(dtype);
    EXPECT_THAT(borrower.part_sizes(), Each(testing::Truly([&](size_t size) {
                  return size > 0 && size % SizeOf(dtype) == 0;
                })));
  }
}

TEST_P(EveryWayTest, AThousandAtATimeArrive) {
  constexpr int kNumTransfers = 1000;
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.transfer_lanes = 2;
    Choose(options);
  });
  tasks.StartAll();
  std::vector<std::vector<std::byte>> bytes(kNumTransfers);
  std::vector<WaitingLender> lenders(kNumTransfers);
  std::vector<std::unique_ptr<WaitingBorrower>> borrowers;
  for (int i = 0; i < kNumTransfers; ++i) {
    bytes[i] = Pattern(static_cast<size_t>(i) * i % 300'001);
    borrowers.push_back(std::make_unique<WaitingBorrower>(bytes[i].size()));
    tasks.Request(0, 1, KeyOf(i), bytes[i].size(), *borrowers[i]);
  }
  for (int i = kNumTransfers - 1; i >= 0; --i) {
    tasks.table(1).Provide(KeyOf(i),
                           {.bytes = bytes[i], .lender = &lenders[i]});
  }
  for (int i = 0; i < kNumTransfers; ++i) {
    ASSERT_THAT(borrowers[i]->Wait(), IsOk());
    ASSERT_THAT(lenders[i].Wait(), IsOk());
    EXPECT_TRUE(borrowers[i]->bytes() == bytes[i]) << i;
  }
}

TEST(TransfersTest, BothDirectionsAndATaskWithItselfWork) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(100'000);
  for (int from = 0; from < 2; ++from) {
    for (int to = 0; to < 2; ++to) {
      WaitingLender lender;
      WaitingBorrower borrower(bytes.size());
      tasks.table(to).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
      tasks.Request(from, to, KeyOf(0), bytes.size(), borrower);
      EXPECT_THAT(borrower.Wait(), IsOk());
      EXPECT_THAT(lender.Wait(), IsOk());
    }
  }
}

TEST(TransfersTest, ACancelledRequestThatWaitsIsWithdrawn) {
  TestTasks tasks(2);
  tasks.StartAll();
  WaitingBorrower borrower(4);
  tasks.Request(0, 1, KeyOf(0), 4, borrower);
  tasks.table(1).WaitForAsks(1);
  WaitingBorrower second(4);
  TransferChannel& transfers = tasks.transport(0).transfers();
  transfers.Cancel(1, KeyOf(0), &second, absl::AbortedError("not yours"));
  transfers.Cancel(1, KeyOf(0), &borrower, absl::AbortedError("enough"));
  EXPECT_THAT(borrower.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  tasks.table(1).WaitForAsks(0);
  EXPECT_EQ(tasks.table(1).num_withdrawn(), 1);

  // The stream and the key are as good as new.
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  tasks.Request(0, 1, KeyOf(0), 4, second);
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
}

TEST_P(EveryWayTest, ATransferCancelledAtAnyTimeEndsAndFreesTheLender) {
  TestTasks tasks(2, Way());
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  for (int i = 0; i < 20; ++i) {
    WaitingLender lender;
    WaitingBorrower borrower(kLargeBytes);
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .lender = &lender});
    tasks.Request(0, 1, KeyOf(i), kLargeBytes, borrower);
    borrower.WaitForPart();
    tasks.transport(0).transfers().Cancel(1, KeyOf(i), &borrower,
                                          absl::AbortedError("enough"));
    const absl::Status status = borrower.Wait();
    EXPECT_TRUE(status.ok() || absl::IsAborted(status)) << status;
    const absl::Status end = lender.Wait();
    EXPECT_TRUE(end.ok() || end == absl::AbortedError("enough")) << end;
  }
}

TEST_P(EveryWayTest, ABorrowerThatRefusesAPartIsToldItsReason) {
  TestTasks tasks(2, Way());
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  for (int i = 0; i < 3; ++i) {
    WaitingLender lender;
    RefusingBorrower borrower(/*offset=*/0, absl::DataLossError("not these"));
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .lender = &lender});
    tasks.Request(0, 1, KeyOf(i), kLargeBytes, borrower);
    EXPECT_THAT(borrower.Wait(),
                StatusIs(absl::StatusCode::kDataLoss, "not these"));
    EXPECT_THAT(lender.Wait(),
                StatusIs(absl::StatusCode::kDataLoss, "not these"));
  }
}

// Takes its first part when the test says so.
class HeldUpBorrower final : public Borrower {
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
    told_.DecrementCount();
  }

  void WaitForPart() { begun_.Wait(); }
  void GoOn() { may_go_on_.DecrementCount(); }
  absl::Status Wait() {
    told_.Wait();
    return status_;
  }
  size_t num_bytes() const { return num_bytes_; }  // After Wait().

 private:
  BlockingCounter begun_{1}, may_go_on_{1}, told_{1};
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
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  HeldUpBorrower large;
  tasks.table(1).Provide(KeyOf(-1), {.bytes = bytes, .lender = &lender});
  tasks.Request(0, 1, KeyOf(-1), kLargeBytes, large);
  large.WaitForPart();
  std::vector<std::unique_ptr<WaitingBorrower>> borrowers;
  for (int i = 0; i < kNumRequests; ++i) {
    borrowers.push_back(std::make_unique<WaitingBorrower>(4));
    tasks.Request(0, 1, KeyOf(i), 4, *borrowers[i]);
  }
  tasks.table(1).WaitForAsks(kNumRequests);
  const auto reason = [](int i) {
    return absl::AbortedError(absl::StrCat(i, std::string(4000, 'x')));
  };
  for (int i = 0; i < kNumRequests; ++i) {
    tasks.transport(0).transfers().Cancel(1, KeyOf(i), borrowers[i].get(),
                                          reason(i));
  }
  tasks.table(1).WaitForAsks(0);  // Each reason is to be sent now.
  large.GoOn();
  EXPECT_THAT(large.Wait(), IsOk());
  EXPECT_EQ(large.num_bytes(), kLargeBytes);
  EXPECT_THAT(lender.Wait(), IsOk());
  for (int i = 0; i < kNumRequests; ++i) {
    EXPECT_EQ(borrowers[i]->Wait(), reason(i));
  }
}

TEST(TransfersTest, ALoanOfAnotherSizeEndsBothSides) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(8);
  WaitingLender lender;
  WaitingBorrower borrower(4);
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  tasks.Request(0, 1, KeyOf(0), 4, borrower);
  const auto is_wrong =
      StatusIs(absl::StatusCode::kInternal, HasSubstr("8 bytes are lent"));
  EXPECT_THAT(borrower.Wait(), is_wrong);
  EXPECT_THAT(lender.Wait(), is_wrong);
}

TEST(TransfersTest, TheSameKeyIsAskedForOnceAtATime) {
  TestTasks tasks(2);
  tasks.StartAll();
  WaitingBorrower first(4), second(4);
  tasks.Request(0, 1, KeyOf(0), 4, first);
  tasks.Request(0, 1, KeyOf(0), 4, second);
  EXPECT_THAT(second.Wait(), StatusIs(absl::StatusCode::kAlreadyExists,
                                      HasSubstr("asked twice")));
  tasks.Stop(0);
  EXPECT_TRUE(absl::IsCancelled(first.Wait()));
}

TEST(TransfersTest, TheKeyOfACancelledRequestIsFreeBeforeItsBorrowerIsTold) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender, second_lender;
  HeldUpBorrower first;
  WaitingBorrower second(4);
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  tasks.Request(0, 1, KeyOf(0), kLargeBytes, first);
  first.WaitForPart();
  tasks.transport(0).transfers().Cancel(1, KeyOf(0), &first,
                                        absl::AbortedError("enough"));
  tasks.Request(0, 1, KeyOf(0), 4, second);
  first.GoOn();
  EXPECT_THAT(first.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  const absl::Status end = lender.Wait();
  EXPECT_TRUE(end.ok() || end == absl::AbortedError("enough")) << end;
  tasks.table(1).Provide(KeyOf(0), {.bytes = absl::MakeSpan(bytes).first(4),
                                    .lender = &second_lender});
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_THAT(second_lender.Wait(), IsOk());
}

TEST(TransfersTest, ASizeThatIsNoNumberOfElementsIsRefused) {
  TestTasks tasks(2);
  tasks.StartAll();
  WaitingBorrower borrower(6);
  tasks.Request(0, 1, KeyOf(0), 6, borrower, DType::kFloat32);
  EXPECT_THAT(borrower.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("float32")));
  WaitingBorrower other(6);
  tasks.Request(0, 1, KeyOf(0), 6, other, static_cast<DType>(99));
  EXPECT_THAT(other.Wait(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("99")));
}

TEST(TransfersTest, ThePeerThatGoesAwayIsNamed) {
  TestTasks tasks(2);
  tasks.StartAll();
  WaitingBorrower borrower(4);
  tasks.Request(0, 1, KeyOf(0), 4, borrower);
  tasks.table(1).WaitForAsks(1);
  tasks.Stop(1);
  EXPECT_THAT(borrower.Wait(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("task 1 (", tasks.address(1),
                                    "): connection closed")));
}

TEST(TransfersTest, ShutdownEndsRequestsAndWithdrawsThem) {
  TestTasks tasks(2);
  tasks.StartAll();
  WaitingBorrower borrower(4);
  tasks.Request(0, 1, KeyOf(0), 4, borrower);
  tasks.table(1).WaitForAsks(1);
  tasks.Stop(0);
  EXPECT_THAT(borrower.Wait(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("shut down")));
  tasks.table(1).WaitForAsks(0);
}

TEST(TransfersTest, ATaskWithTooManyRequestsIsRefusedMore) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_transfers = 3;
  });
  tasks.StartAll();
  std::vector<std::unique_ptr<WaitingBorrower>> borrowers;
  for (int i = 0; i < 4; ++i) {
    borrowers.push_back(std::make_unique<WaitingBorrower>(4));
    tasks.Request(0, 1, KeyOf(i), 4, *borrowers[i]);
  }
  EXPECT_THAT(borrowers[3]->Wait(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("task 0"), HasSubstr("3 requests"))));
  // Room for another one when one has ended.
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  EXPECT_THAT(borrowers[0]->Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  WaitingBorrower fifth(4);
  tasks.Request(0, 1, KeyOf(5), 4, fifth);
  tasks.table(1).WaitForAsks(3);
  tasks.Stop(0);
}

TEST(TransfersTest, ATaskWithTooManyStreamsIsRefusedMore) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_streams = 2;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  const auto pull = [&tasks] {
    WaitingBorrower borrower(4);
    tasks.Request(0, 1, KeyOf(0), 4, borrower);
    return borrower.Wait();
  };
  StallingPeer first(tasks.address(1), GoodFields(0, 1));
  first.Write(Request(1, 1, 4));
  tasks.table(1).WaitForAsks(1);
  {
    StallingPeer second(tasks.address(1), GoodFields(0, 1));
    second.Write(Request(1, 2, 4));
    tasks.table(1).WaitForAsks(2);
    EXPECT_THAT(pull(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("task 0"), HasSubstr("2 streams"))));
  }
  // Room for another one as soon as gRPC is done with one.
  absl::Status status = pull();
  while (absl::IsResourceExhausted(status)) status = pull();
  EXPECT_THAT(status, IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
}

// Tells when an alarm is set for a time that is `delay` away.
class WatchedClock final : public Clock {
 public:
  WatchedClock(Clock* clock, absl::Duration delay)
      : clock_(clock), delay_(delay) {}

  absl::Time Now() override { return clock_->Now(); }
  AlarmId CallAt(absl::Time when, Work alarm) override {
    const bool is_awaited = when - clock_->Now() == delay_;
    const AlarmId id = clock_->CallAt(when, std::move(alarm));
    if (is_awaited) is_set_.DecrementCount();
    return id;
  }
  bool Cancel(AlarmId id) override { return clock_->Cancel(id); }

  void WaitForAlarm() { is_set_.Wait(); }

 private:
  Clock* const clock_;
  const absl::Duration delay_;
  BlockingCounter is_set_{1};
};

TEST(TransfersTest, BytesThatStayWithGrpcAfterACancelAreFreedAfterTheGrace) {
  SimulatedEnvironment simulated(/*seed=*/1);
  WatchedClock clock(simulated.get().clock, absl::Seconds(2));
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = &clock;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Cancel(1));
  clock.WaitForAlarm();
  simulated.Advance(absl::Seconds(2));  // For the stream,
  simulated.Advance(absl::Seconds(2));  // and for the connection.
  EXPECT_THAT(lender.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(TransfersTest, ShutdownWithdrawsWhatHasTheIdOfARefusedRequest) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_transfers = 3;
    // More than gRPC takes of a peer's bytes before that one reads.
    options.bounds.max_frame_bytes = size_t{16} << 20;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes) + Request(2, 1, 4));
  {
    StallingPeer third(tasks.address(1), GoodFields(0, 1));
    third.Write(Request(1, 2, 4));
    tasks.table(1).WaitForAsks(2);
    // The refusal waits behind bytes that the peer does not read.
    peer.Write(Request(3, 3, 4) + Cancel(2));
    tasks.table(1).WaitForAsks(1);
  }
  tasks.table(1).WaitForAsks(0);  // There is room again.
  peer.Write(Request(3, 4, 4));
  tasks.table(1).WaitForAsks(1);
  peer.ReadFromNowOn();
  EXPECT_THAT(lender.Wait(), IsOk());  // By now the refusal has been sent.
  tasks.Stop(1);
  tasks.table(1).WaitForAsks(0);
}

TEST(TransfersTest, AReceiverThatGoesAwayMidTransferFreesTheLender) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  {
    StallingPeer peer(tasks.address(1), GoodFields(0, 1));
    peer.Write(Request(1, 0, kLargeBytes));
    tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
    peer.Write(Request(2, 1, 4));
    tasks.table(1).WaitForAsks(1);
  }
  EXPECT_THAT(lender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                      absl::StrCat("task 0 (", tasks.address(0),
                                                   "): connection closed")));
  tasks.table(1).WaitForAsks(0);
}

TEST(TransfersTest, ShutdownFreesTheLenderOfAReceiverThatStalls) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  tasks.table(1).WaitForAsks(1);
  tasks.Stop(1);
  EXPECT_TRUE(absl::IsUnavailable(lender.Wait())) << lender.Wait();
}

// What `server` sends in answer to a request for 8 bytes does not crash task 0,
// but ends the request.
absl::Status EndOfRequest(FakeServer::Answer answer) {
  TestTasks tasks(2);
  tasks.Start(0);
  FakeServer server(tasks.address(1), std::move(answer));
  WaitingBorrower first(8), second(8);
  tasks.Request(0, 1, KeyOf(0), 8, first);
  absl::Status status = first.Wait();
  tasks.Stop(0);
  return status;
}

std::string Frame(const FrameHeader& header, size_t num_bytes) {
  const EncodedFrameHeader encoded = Encode(header);
  return std::string(reinterpret_cast<const char*>(encoded.data()),
                     encoded.size()) +
         std::string(num_bytes, 'x');
}

TEST(TransfersTest, FramesThatWereNotAskedForEndTheStream) {
  const auto ends = [](const std::string& message) {
    return EndOfRequest({.message = message, .finishes = false});
  };
  const auto is_broken =
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("task 1 (127.0.0.1:"),
                     HasSubstr("sent what was not asked for")));
  const FrameHeader good{.id = 1, .length = 8, .is_last = true};
  EXPECT_THAT(ends(Frame(good, 8)), IsOk());

  FrameHeader header = good;
  header.id = 2;
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
  header = good;
  header.offset = 1;
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
  header = good;
  header.offset = ~uint64_t{0};
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
  header = good;
  header.length = 9;
  EXPECT_THAT(ends(Frame(header, 9)), is_broken);
  header = good;
  header.length = 7;
  EXPECT_THAT(ends(Frame(header, 7)), is_broken);
  header = good;
  header.is_last = false;
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
  // Shorter than the header says.
  header = good;
  EXPECT_THAT(ends(Frame(header, 7)), is_broken);
  header.length = ~uint32_t{0};
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
  EXPECT_THAT(ends(Frame(good, 8).substr(0, 31)), is_broken);
  EXPECT_THAT(ends("x"), is_broken);
  // More than was asked for.
  EXPECT_THAT(ends(Frame(good, 8) + Frame(good, 8)), IsOk());
  EXPECT_THAT(ends(std::string(1000, '\xff')), is_broken);
  header = good;
  header.code = static_cast<absl::StatusCode>(17);
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
}

TEST(TransfersTest, APeerThatEndsTheStreamMidTransferIsNamed) {
  const FrameHeader half{.id = 1, .length = 4};
  EXPECT_THAT(EndOfRequest({.message = Frame(half, 4)}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("task 1 (127.0.0.1:"),
                             HasSubstr("connection closed"))));
}

// Its TCP connection takes nothing any more, and gRPC has begun to write.
TEST(TransfersTest, AConnectionThatStallsIsBrokenAfterASecondGrace) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  tasks.table(1).WaitForAsks(1);
  peer.Write(Cancel(1));
  peer.Write(Cancel(2));
  tasks.table(1).WaitForAsks(0);
  simulated.Advance(absl::Seconds(2));
  simulated.Advance(absl::Seconds(2));
  EXPECT_THAT(lender.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
}

// The clock does not move: no grace ends.
TEST(TransfersTest, WhatIsOnItsWayToAProcessThatIsDroppedIsFreeAtOnce) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  tasks.table(1).WaitForAsks(1);
  const absl::Status lost = absl::UnavailableError("task 0 was lost");
  Transport& transport = tasks.transport(1);
  // Another process of the task, or another task, changes nothing.
  transport.Drop({.task = 0, .incarnation = 6}, lost);
  transport.Drop({.task = 1, .incarnation = 5}, lost);
  tasks.table(1).WaitForAsks(1);
  transport.Drop({.task = 0, .incarnation = 5}, lost);
  EXPECT_EQ(lender.Wait(), lost);
  tasks.table(1).WaitForAsks(0);
}

// A table whose Withdraw() takes as long as the test says.
class SlowService final : public TransferService {
 public:
  void Serve(const ControlCaller& caller, const BufKey& key,
             const Ask& ask) override {
    table_.Serve(caller, key, ask);
  }
  void Withdraw(const BufKey& key, const Borrower* borrower,
                absl::Status reason) override {
    table_.Withdraw(key, borrower, std::move(reason));
    begun_.DecrementCount();
    may_end_.Wait();
    has_ended_ = true;
  }

  TableService& table() { return table_; }
  void WaitForWithdraw() { begun_.Wait(); }
  void LetWithdrawEnd() { may_end_.DecrementCount(); }
  bool has_ended() const { return has_ended_; }

 private:
  TableService table_;
  BlockingCounter begun_{1};
  BlockingCounter may_end_{1};
  std::atomic<bool> has_ended_ = false;
};

TEST(TransfersTest, ShutdownWaitsForADropThatIsUnderWay) {
  TestTasks tasks(2);
  FunctionService control(nullptr);
  SlowService service;
  auto transport = CreateGrpcTransport(tasks.Options(1));
  ASSERT_THAT(transport, IsOk());
  ASSERT_THAT((*transport)->Start(&control, &service), IsOk());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingLender lender;
  service.table().Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  service.table().WaitForAsks(1);
  std::thread dropper([&] {
    (*transport)
        ->Drop({.task = 0, .incarnation = 5},
               absl::UnavailableError("task 0 was lost"));
  });
  service.WaitForWithdraw();
  std::thread stopper([&] {
    (*transport)->Shutdown();
    EXPECT_TRUE(service.has_ended());
  });
  // From now on nothing but the drop is under way; a few shutdowns take longer
  // than what is left of this one.
  EXPECT_FALSE(lender.Wait().ok());
  for (int i = 0; i < 5; ++i) tasks.Start(0);
  service.LetWithdrawEnd();
  dropper.join();
  stopper.join();
}

TEST(TransfersTest, WhatIsAskedOfAProcessThatIsDroppedEnds) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingLender lender;
  WaitingBorrower first(4), second(4), third(4);
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .lender = &lender});
  tasks.Request(0, 1, KeyOf(0), 4, first);
  EXPECT_THAT(first.Wait(), IsOk());  // Now it is known who answers.
  tasks.Request(0, 1, KeyOf(1), 4, second);
  tasks.table(1).WaitForAsks(1);
  const absl::Status lost = absl::UnavailableError("task 1 was lost");
  Transport& transport = tasks.transport(0);
  const uint64_t incarnation = tasks.incarnation(1);
  transport.Drop({.task = 1, .incarnation = incarnation + 1}, lost);
  tasks.Request(0, 1, KeyOf(2), 4, third);
  tasks.table(1).WaitForAsks(2);
  transport.Drop({.task = 1, .incarnation = incarnation}, lost);
  EXPECT_EQ(second.Wait(), lost);
  EXPECT_EQ(third.Wait(), lost);
  tasks.table(1).WaitForAsks(0);
}

TEST(TransfersTest, WhatIsAskedOfAReplacementDoesNotEndWithWhomItReplaced) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.same_host_socket = false;
  });
  tasks.Start(0);
  const auto calls = [&](const std::string& incarnation) {
    CallFields fields = GoodFields(1, 0);
    fields["tutti-caller-incarnation"] = incarnation;
    EXPECT_EQ(CallAs(tasks.address(0), fields, "/tutti.Transfers/Pull", "")
                  .error_code(),
              grpc::StatusCode::OK);
  };
  calls("5");
  WaitingBorrower first(8), second(8);
  // A process that lets others connect, and says nothing any more.
  auto listeners = ListenAt({tasks.address(1)});
  ASSERT_THAT(listeners, IsOk());
  tasks.Request(0, 1, KeyOf(0), 8, first);
  FileDescriptor silent;
  while (silent.get() < 0) {
    silent = FileDescriptor(accept((*listeners)[0].get(), nullptr, nullptr));
    std::this_thread::yield();
  }
  listeners->clear();
  FakeServer server(
      tasks.address(1),
      {.message = Frame({.id = 1, .length = 8, .is_last = true}, 8),
       .finishes = false});
  calls("77");
  tasks.Request(0, 1, KeyOf(1), 8, second);
  EXPECT_THAT(second.Wait(), IsOk());
  EXPECT_FALSE(first.Wait().ok());
  tasks.Stop(0);
}

TEST(TransfersTest, WhatIsAskedForWhileAStreamEndsEndsWithItOrComes) {
  constexpr int kNumRounds = 200;
  constexpr int kNumRequests = 64;
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingLender lender;
  TestTasks tasks(2);
  tasks.StartAll();
  const absl::Status lost = absl::UnavailableError("task 1 was lost");
  for (int round = 0; round < kNumRounds; ++round) {
    const int first_tag = round * kNumRequests;
    std::vector<std::unique_ptr<WaitingBorrower>> borrowers;
    for (int i = 0; i < kNumRequests; ++i) {
      const BufKey key = KeyOf(first_tag + i);
      tasks.table(1).Provide(key, {.bytes = bytes, .lender = &lender});
      borrowers.push_back(std::make_unique<WaitingBorrower>(4));
      tasks.Request(0, 1, key, 4, *borrowers[i]);
      if (i > 0) continue;
      EXPECT_THAT(borrowers[0]->Wait(), IsOk());
      tasks.transport(0).Drop({.task = 1, .incarnation = tasks.incarnation(1)},
                              lost);
    }
    for (const auto& borrower : borrowers) {
      EXPECT_THAT(borrower->Wait(), testing::AnyOf(IsOk(), lost));
    }
  }
}

// Counts how often it is told the end of its transfer.
class CountingBorrower final : public Borrower {
 public:
  void OnDelivery(int32_t /*id*/, absl::Status /*status*/,
                  Delivery /*delivery*/) override {
    ++num_told_;
  }
  int num_told() const { return num_told_; }

 private:
  std::atomic<int> num_told_ = 0;
};

TEST(TransfersTest, WhatIsCancelledWhileAStreamEndsIsToldOnce) {
  constexpr int kNumRounds = 1000;
  constexpr int kNumRequests = 64;
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingLender lender;
  WaitingBorrower first(4);
  std::vector<CountingBorrower> borrowers(kNumRounds * kNumRequests);
  TestTasks tasks(2);
  tasks.StartAll();
  tasks.table(1).Provide(KeyOf(-1), {.bytes = bytes, .lender = &lender});
  tasks.Request(0, 1, KeyOf(-1), 4, first);
  EXPECT_THAT(first.Wait(), IsOk());  // Now it is known who answers.
  Transport& transport = tasks.transport(0);
  for (int round = 0; round < kNumRounds; ++round) {
    const int begin = round * kNumRequests;
    const int end = begin + kNumRequests;
    for (int i = begin; i < end; ++i) {
      tasks.Request(0, 1, KeyOf(i), 4, borrowers[i]);
    }
    std::thread dropper([&] {
      transport.Drop({.task = 1, .incarnation = tasks.incarnation(1)},
                     absl::UnavailableError("task 1 was lost"));
    });
    for (int i = begin; i < end; ++i) {
      transport.transfers().Cancel(1, KeyOf(i), &borrowers[i],
                                   absl::AbortedError("enough"));
    }
    dropper.join();
  }
  tasks.Stop(0);
  for (const CountingBorrower& borrower : borrowers) {
    ASSERT_EQ(borrower.num_told(), 1);
  }
}

TEST(TransfersTest, MessagesThatAreTooLargeEndTheStream) {
  EXPECT_THAT(
      EndOfRequest({.message = std::string(32 << 20, 'x'), .finishes = false}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("task 1 (127.0.0.1:")));
}

TEST(TransfersTest, RecordsThatMakeNoSenseEndTheStreamAtTheSender) {
  TestTasks tasks(2);
  tasks.StartAll();
  const auto sends = [&](const std::string& message) {
    return CallAs(tasks.address(1), GoodFields(0, 1), "/tutti.Transfers/Pull",
                  message)
        .error_code();
  };
  EXPECT_EQ(sends(""), grpc::StatusCode::OK);
  EXPECT_EQ(sends("x"), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(sends(Request(1, 0, 4).substr(1)), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(sends(std::string(kRecordBytes, '\xff')),
            grpc::StatusCode::INTERNAL);
  EXPECT_EQ(sends(Request(1, 0, 4) + Request(1, 1, 4)),
            grpc::StatusCode::INTERNAL);
  const std::string cancel = Cancel(1);
  EXPECT_EQ(sends(cancel), grpc::StatusCode::OK);
  EXPECT_EQ(sends(cancel.substr(0, cancel.size() - 1)),
            grpc::StatusCode::INTERNAL);
  EXPECT_EQ(sends(std::string(100'000, '\0')),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  tasks.table(1).WaitForAsks(0);
}

}  // namespace
}  // namespace tutti
