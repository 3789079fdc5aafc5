// Tests transfers with fake peers: they stall, break the protocol, are dropped
// or go away.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace transfer_peers_test {

using testing::AllOf;
using testing::HasSubstr;

// More bytes than a socket buffer holds.
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

TEST(TransferPeersTest, ATaskWithTooManyStreamsIsRefusedMore) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_streams = 2;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(4);
  WaitingSender sender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  const auto pull = [&tasks] {
    WaitingReceiver receiver(4);
    tasks.Request(0, 1, KeyOf(0), 4, receiver);
    return receiver.Wait();
  };
  StallingPeer first(tasks.address(1), GoodFields(0, 1));
  first.Write(Request(1, 1, 4));
  tasks.table(1).WaitForRequests(1);
  {
    StallingPeer second(tasks.address(1), GoodFields(0, 1));
    second.Write(Request(1, 2, 4));
    tasks.table(1).WaitForRequests(2);
    EXPECT_THAT(pull(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("task 0"), HasSubstr("2 streams"))));
  }
  // Retry: there is room as soon as gRPC is done with a request.
  absl::Status status = pull();
  while (absl::IsResourceExhausted(status)) status = pull();
  EXPECT_THAT(status, IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
}

// Waits for an alarm that is set `delay` from now.
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

TEST(TransferPeersTest,
     BytesThatStayWithGrpcAfterACancelAreFreedAfterTheGrace) {
  SimulatedEnvironment simulated(/*seed=*/1);
  WatchedClock clock(simulated.get().clock, absl::Seconds(2));
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = &clock;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Cancel(1));
  clock.WaitForAlarm();
  simulated.Advance(absl::Seconds(2));  // Ends the stream,
  simulated.Advance(absl::Seconds(2));  // and then the connection.
  EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(TransferPeersTest, ShutdownWithdrawsWhatHasTheIdOfARefusedRequest) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_transfers = 3;
    // More than gRPC buffers for a peer that does not read.
    options.bounds.max_frame_bytes = size_t{16} << 20;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes) + Request(2, 1, 4));
  {
    StallingPeer third(tasks.address(1), GoodFields(0, 1));
    third.Write(Request(1, 2, 4));
    tasks.table(1).WaitForRequests(2);
    // Queue a refusal behind bytes that the peer does not read.
    peer.Write(Request(3, 3, 4) + Cancel(2));
    tasks.table(1).WaitForRequests(1);
  }
  tasks.table(1).WaitForRequests(0);  // Room again.
  peer.Write(Request(3, 4, 4));
  tasks.table(1).WaitForRequests(1);
  peer.ReadFromNowOn();
  EXPECT_THAT(sender.Wait(), IsOk());  // The refusal has been sent by now.
  tasks.Stop(1);
  tasks.table(1).WaitForRequests(0);
}

TEST(TransferPeersTest, AReceiverThatGoesAwayMidTransferFreesTheLender) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  {
    StallingPeer peer(tasks.address(1), GoodFields(0, 1));
    peer.Write(Request(1, 0, kLargeBytes));
    tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
    peer.Write(Request(2, 1, 4));
    tasks.table(1).WaitForRequests(1);
  }
  EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                      absl::StrCat("task 0 (", tasks.address(0),
                                                   "): connection closed")));
  tasks.table(1).WaitForRequests(0);
}

TEST(TransferPeersTest, ShutdownFreesTheLenderOfAReceiverThatStalls) {
  TestTasks tasks(2);
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  tasks.table(1).WaitForRequests(1);
  tasks.Stop(1);
  EXPECT_TRUE(absl::IsUnavailable(sender.Wait())) << sender.Wait();
}

// Returns the end of a request for 8 bytes, which `server` answers. Task 0 must
// not crash.
absl::Status EndOfRequest(FakeServer::Answer answer) {
  TestTasks tasks(2);
  tasks.Start(0);
  FakeServer server(tasks.address(1), std::move(answer));
  WaitingReceiver first(8), second(8);
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

TEST(TransferPeersTest, FramesThatWereNotAskedForEndTheStream) {
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
  // Payload shorter than the header says.
  header = good;
  EXPECT_THAT(ends(Frame(header, 7)), is_broken);
  header.length = ~uint32_t{0};
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
  EXPECT_THAT(ends(Frame(good, 8).substr(0, 31)), is_broken);
  EXPECT_THAT(ends("x"), is_broken);
  // More bytes than requested.
  EXPECT_THAT(ends(Frame(good, 8) + Frame(good, 8)), IsOk());
  EXPECT_THAT(ends(std::string(1000, '\xff')), is_broken);
  header = good;
  header.code = static_cast<absl::StatusCode>(17);
  EXPECT_THAT(ends(Frame(header, 8)), is_broken);
}

TEST(TransferPeersTest, APeerThatEndsTheStreamMidTransferIsNamed) {
  const FrameHeader half{.id = 1, .length = 4};
  EXPECT_THAT(EndOfRequest({.message = Frame(half, 4)}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("task 1 (127.0.0.1:"),
                             HasSubstr("connection closed"))));
}

// Stalls the TCP connection while gRPC is writing.
TEST(TransferPeersTest, AConnectionThatStallsIsBrokenAfterASecondGrace) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  tasks.table(1).WaitForRequests(1);
  peer.Write(Cancel(1));
  peer.Write(Cancel(2));
  tasks.table(1).WaitForRequests(0);
  simulated.Advance(absl::Seconds(2));
  simulated.Advance(absl::Seconds(2));
  EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
}

// Clock stands still: no grace ends.
TEST(TransferPeersTest, WhatIsOnItsWayToAProcessThatIsDroppedIsFreeAtOnce) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  tasks.StartAll();
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  tasks.table(1).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  tasks.table(1).WaitForRequests(1);
  const absl::Status lost = absl::UnavailableError("task 0 was lost");
  Transport& transport = tasks.transport(1);
  // Dropping another process of the task, or another task, changes nothing.
  transport.Drop({.task = 0, .incarnation = 6}, lost);
  transport.Drop({.task = 1, .incarnation = 5}, lost);
  tasks.table(1).WaitForRequests(1);
  transport.Drop({.task = 0, .incarnation = 5}, lost);
  EXPECT_EQ(sender.Wait(), lost);
  tasks.table(1).WaitForRequests(0);
}

// Table whose Withdraw() takes as long as the test says.
class SlowService final : public TransferService {
 public:
  void Serve(const ControlCaller& caller, const BufKey& key,
             const RecvRequest& recv) override {
    if (key.tag == kLastTag) last_comes_.DecrementCount();
    table_.Serve(caller, key, recv);
  }
  void Withdraw(const BufKey& key, const Receiver* receiver,
                absl::Status reason) override {
    table_.Withdraw(key, receiver, std::move(reason));
    begun_.DecrementCount();
    may_end_.Wait();
    has_ended_ = true;
  }

  TableService& table() { return table_; }

  // Last tag. The reader of a stream serves requests in order: it has finished
  // all before.
  static constexpr int kLastTag = 9;
  void WaitForLastTag() { last_comes_.Wait(); }

  void WaitForWithdraw() { begun_.Wait(); }
  void LetWithdrawEnd() { may_end_.DecrementCount(); }
  bool has_ended() const { return has_ended_; }

 private:
  TableService table_;
  BlockingCounter last_comes_{1};
  BlockingCounter begun_{1};
  BlockingCounter may_end_{1};
  std::atomic<bool> has_ended_ = false;
};

TEST(TransferPeersTest, ShutdownWaitsForADropThatIsUnderWay) {
  TestTasks tasks(2);
  FunctionService control(nullptr);
  SlowService service;
  auto transport = CreateGrpcTransport(tasks.Options(1));
  ASSERT_THAT(transport, IsOk());
  ASSERT_THAT((*transport)->Start(&control, &service), IsOk());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  service.table().Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  WaitingSender last_lender;
  service.table().Provide(
      KeyOf(SlowService::kLastTag),
      {.bytes = absl::MakeConstSpan(bytes).first(4), .sender = &last_lender});
  StallingPeer peer(tasks.address(1), GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  peer.Write(Request(3, SlowService::kLastTag, 4));
  // Otherwise the reader withdraws the second request, not the drop.
  service.WaitForLastTag();
  service.table().WaitForRequests(1);
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
  // Only the drop is under way now. A few shutdowns take longer than the rest
  // of this one.
  EXPECT_FALSE(sender.Wait().ok());
  (void)last_lender.Wait();  // Bytes may already be sent.
  for (int i = 0; i < 5; ++i) tasks.Start(0);
  service.LetWithdrawEnd();
  dropper.join();
  stopper.join();
}

TEST(TransferPeersTest, WhatIsAskedOfAReplacementDoesNotEndWithWhomItReplaced) {
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
  WaitingReceiver first(8), second(8);
  // Process that accepts connections, and then stays silent.
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

TEST(TransferPeersTest, MessagesThatAreTooLargeEndTheStream) {
  EXPECT_THAT(
      EndOfRequest({.message = std::string(32 << 20, 'x'), .finishes = false}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("task 1 (127.0.0.1:")));
}

TEST(TransferPeersTest, RecordsThatMakeNoSenseEndTheStreamAtTheSender) {
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
  tasks.table(1).WaitForRequests(0);
}

}  // namespace transfer_peers_test
}  // namespace tutti
