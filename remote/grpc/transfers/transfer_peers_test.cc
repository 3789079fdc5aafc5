// Tests transfers with fake peers: they stall, break the protocol, are dropped
// or go away.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/peers.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/tasks_testing.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace transfer_peers_test {

std::string Request(uint64_t id, int tag, size_t num_bytes) {
  return RequestRecord(id, tag, num_bytes);
}

std::string Cancel(uint64_t id) {
  constexpr absl::string_view kMessage = "enough";
  return absl::StrCat(Bytes(TransferRecord{.kind = RecordKind::kCancel,
                                           .id = id,
                                           .num_bytes = kMessage.size(),
                                           .code = absl::StatusCode::kAborted}),
                      kMessage);
}

TEST(PeersTest, DropsALinkThatIsIdleUnlessACallHasIt) {
  SimulatedEnvironment simulated(/*seed=*/1);
  RunningTasks tasks(2);
  GrpcTransportOptions options = tasks.Options(0);
  options.environment.queue = simulated.get().queue;  // Drops channels.
  Peers peers(&options, /*credentials=*/nullptr);
  const auto connect = [&] {
    absl::Notification is_done;
    std::shared_ptr<grpc::Channel> channel;
    peers.Connect(1, /*lane=*/0, [&](const absl::StatusOr<Peers::Link>& link) {
      channel = link.value().channel;
      is_done.Notify();
    });
    is_done.WaitForNotification();
    simulated.RunAll();
    return channel;
  };
  auto of_call = connect();
  peers.CloseIdle();
  peers.CloseIdle();
  EXPECT_EQ(connect(), of_call);
  const std::weak_ptr<grpc::Channel> first = std::exchange(of_call, nullptr);
  peers.CloseIdle();  // Connect() has used it.
  simulated.RunAll();
  EXPECT_FALSE(first.expired());
  peers.CloseIdle();
  simulated.RunAll();
  EXPECT_TRUE(first.expired());
  EXPECT_NE(connect(), nullptr);
  peers.Close();
  simulated.RunAll();
}

TEST(TransferPeersTest, ATaskWithTooManyStreamsIsRefusedMore) {
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_streams = 2;
  });
  OfferedBytes lent(tasks, 4);
  const auto pull = [&tasks] { return EndOfPull(tasks, 0, 1); };
  StallingPeer first({tasks.address(1), 1}, GoodFields(0, 1));
  first.Write(Request(1, 1, 4));
  tasks.table(1).WaitForRequests(1);
  {
    StallingPeer second({tasks.address(1), 1}, GoodFields(0, 1));
    second.Write(Request(1, 2, 4));
    tasks.table(1).WaitForRequests(2);
    EXPECT_THAT(pull(), IsResourceExhausted("task 0", "2 streams"));
  }
  // Retry: there is room as soon as gRPC is done with a request.
  absl::Status status = pull();
  while (absl::IsResourceExhausted(status)) status = pull();
  EXPECT_THAT(status, IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
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
  constexpr absl::Duration kGrace = absl::Milliseconds(17);
  SimulatedEnvironment simulated(/*seed=*/1);
  WatchedClock clock(simulated.get().clock, kGrace);
  RunningTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = &clock;
    options.cancel_grace = kGrace;
  });
  OfferedBytes lent(tasks, kLargeBytes);
  StallingPeer peer({tasks.address(1), 1}, GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Cancel(1));
  clock.WaitForAlarm();
  simulated.Advance(kGrace);
  EXPECT_EQ(lent.Wait(), absl::AbortedError("enough"));
}

TEST(TransferPeersTest, ShutdownWithdrawsWhatHasTheIdOfARefusedRequest) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_transfers = 3;
    // More than gRPC buffers for a peer that does not read.
    options.bounds.max_frame_bytes = size_t{16} << 20;
  });
  tasks.StartAll();
  OfferedBytes lent(tasks, kLargeBytes);
  StallingPeer peer({tasks.address(1), 1}, GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes) + Request(2, 1, 4));
  {
    StallingPeer third({tasks.address(1), 1}, GoodFields(0, 1));
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
  EXPECT_THAT(lent.Wait(), IsOk());  // The refusal has been sent by now.
  tasks.Stop(1);
  tasks.table(1).WaitForRequests(0);
}

// Peer that stalls, and to which task 1 lends many bytes; another request of it
// waits. The parameter: whether the peer reads the bytes from memory. Clock
// stands still unless a test advances it: no grace ends.
class StallingPeerTest : public testing::TestWithParam<bool> {
 protected:
  StallingPeerTest() {
    peer_->Write(RequestRecord(1, 0, kLargeBytes, GetParam()));
    peer_->Write(RequestRecord(2, 1, 4, GetParam()));
    tasks_.table(1).WaitForRequests(1);
  }

  // A TCP connection stalls while gRPC is writing; what may be read from memory
  // is free at once.
  void PassGraceOfSocket() {
    if (!GetParam()) simulated_.Advance(GrpcTransportOptions().cancel_grace);
  }

  SimulatedEnvironment simulated_{/*seed=*/1};
  RunningTasks tasks_{2, [this](int, GrpcTransportOptions& options) {
                        options.environment.clock = simulated_.get().clock;
                      }};
  OfferedBytes offered_{tasks_, kLargeBytes};
  std::optional<StallingPeer> peer_{
      std::in_place,
      Target{tasks_.address(1), 1, GetParam() ? Way::kUnixSocket : Way::kTcp},
      GoodFields(0, 1)};
};

INSTANTIATE_TEST_SUITE_P(ReadsMemory, StallingPeerTest, testing::Bool());

TEST_P(StallingPeerTest, FreesTheLenderWhenItGoesAway) {
  peer_.reset();
  EXPECT_THAT(offered_.Wait(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("task 0 (", tasks_.address(0),
                                    "): connection closed")));
  tasks_.table(1).WaitForRequests(0);
}

TEST_P(StallingPeerTest, FreesTheLenderWhenTheSenderIsShutDown) {
  tasks_.Stop(1);
  EXPECT_TRUE(absl::IsUnavailable(offered_.Wait())) << offered_.Wait();
}

TEST_P(StallingPeerTest, FreesTheLenderAfterACancelAndTheGrace) {
  for (const uint64_t id : {1, 2}) peer_->Write(Cancel(id));
  tasks_.table(1).WaitForRequests(0);
  PassGraceOfSocket();
  EXPECT_EQ(offered_.Wait(), absl::AbortedError("enough"));
}

TEST_P(StallingPeerTest, FreesTheLenderThatEndsAfterTheGrace) {
  const absl::Status late = absl::DeadlineExceededError("late");
  CancelRequest(tasks_.transport(1).transfers(), KeyOf(0), late);
  PassGraceOfSocket();
  EXPECT_EQ(offered_.Wait(), late);
}

TEST_P(StallingPeerTest, FreesTheLenderAtOnceWhenItsProcessIsDropped) {
  const absl::Status lost = absl::UnavailableError("task 0 was lost");
  Transport& transport = tasks_.transport(1);
  // Dropping another process of the task, or another task, changes nothing.
  transport.Drop({.task = 0, .incarnation = 6}, lost);
  transport.Drop({.task = 1, .incarnation = 5}, lost);
  tasks_.table(1).WaitForRequests(1);
  transport.Drop({.task = 0, .incarnation = 5}, lost);
  EXPECT_EQ(offered_.Wait(), lost);
  tasks_.table(1).WaitForRequests(0);
}

// Returns the end of a request for 8 bytes, which `server` answers. Task 0 must
// not crash.
absl::Status EndOfRequest(FakeServer::Answer answer) {
  TestTasks tasks(2);
  tasks.Start(0);
  FakeServer server(tasks.address(1), std::move(answer));
  RequestedBytes first(tasks, 8);
  absl::Status status = first.Wait();
  tasks.Stop(0);
  return status;
}

std::string Frame(const FrameHeader& header, size_t num_bytes) {
  return Bytes(header) + std::string(num_bytes, 'x');
}

TEST(TransferPeersTest, FramesThatWereNotAskedForEndTheStream) {
  const auto ends = [](const std::string& message) {
    return EndOfRequest({.message = message, .finishes = false});
  };
  const auto is_broken =
      IsInternal("task 1 (127.0.0.1:", "sent what was not asked for");
  const FrameHeader good{.id = 1, .length = 8, .is_last = true};
  EXPECT_THAT(ends(Frame(good, 8)), IsOk());

  const std::pair<ChangeFrame, size_t> wrong_frames[] = {
      {[](auto& h) { h.id = 2; }, 8},
      {[](auto& h) { h.offset = 1; }, 8},
      {[](auto& h) { h.offset = ~uint64_t{0}; }, 8},
      {[](auto& h) { h.length = 9; }, 9},
      {[](auto& h) { h.length = 7; }, 7},
      {[](auto& h) { h.is_last = false; }, 8},
      {[](auto&) {}, 7},  // Payload shorter than the header says.
      {[](auto& h) { h.length = ~uint32_t{0}; }, 8},
      {[](auto& h) { h.code = static_cast<absl::StatusCode>(17); }, 8}};
  for (const auto& [change, num_bytes] : wrong_frames) {
    FrameHeader header = good;
    change(header);
    EXPECT_THAT(ends(Frame(header, num_bytes)), is_broken);
  }
  EXPECT_THAT(ends(Frame(good, 8).substr(0, 31)), is_broken);
  EXPECT_THAT(ends("x"), is_broken);
  EXPECT_THAT(ends(std::string(1000, '\xff')), is_broken);
  // More bytes than requested.
  EXPECT_THAT(ends(Frame(good, 8) + Frame(good, 8)), IsOk());
}

TEST(TransferPeersTest, APeerThatEndsTheStreamMidTransferIsNamed) {
  const FrameHeader half{.id = 1, .length = 4};
  EXPECT_THAT(EndOfRequest({.message = Frame(half, 4)}),
              IsUnavailable("task 1 (127.0.0.1:", "connection closed"));
}

// Table whose Withdraw() takes as long as the test says.
class SlowService final : public TransferService {
 public:
  void Serve(std::shared_ptr<ServedRequest> request) override {
    if (request->key.tag == kLastTag) last_comes_.DecrementCount();
    table_.Serve(std::move(request));
  }
  void Withdraw(const std::shared_ptr<ServedRequest>& request,
                absl::Status reason) override {
    table_.Withdraw(request, std::move(reason));
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
  auto transport = CreateGrpcTransport(tasks.Options(1)).value();
  ASSERT_THAT(transport->Start(&control, &service), IsOk());
  const std::vector<std::byte> bytes = Pattern(kLargeBytes);
  WaitingSender sender;
  service.table().Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
  WaitingSender last_sender;
  service.table().Provide(
      KeyOf(SlowService::kLastTag),
      {.bytes = absl::MakeConstSpan(bytes).first(4), .sender = &last_sender});
  StallingPeer peer({tasks.address(1), 1}, GoodFields(0, 1));
  peer.Write(Request(1, 0, kLargeBytes));
  peer.Write(Request(2, 1, 4));
  peer.Write(Request(3, SlowService::kLastTag, 4));
  // Otherwise the reader withdraws the second request, not the drop.
  service.WaitForLastTag();
  service.table().WaitForRequests(1);
  std::thread dropper([&] {
    transport->Drop({.task = 0, .incarnation = 5},
                    absl::UnavailableError("task 0 was lost"));
  });
  service.WaitForWithdraw();
  std::thread stopper([&] {
    transport->Shutdown();
    EXPECT_TRUE(service.has_ended());
  });
  // Only the drop is under way now. A few shutdowns take longer than the rest
  // of this one.
  EXPECT_FALSE(sender.Wait().ok());
  (void)last_sender.Wait();  // Bytes may already be sent.
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
    EXPECT_EQ(CallAs({tasks.address(0), 0}, fields, "/tutti.Transfers/Pull", "")
                  .error_code(),
              grpc::StatusCode::OK);
  };
  calls("5");
  WaitingReceiver first(8), second(8);
  // Process that accepts connections, and then stays silent.
  auto listeners = ListenAt({tasks.address(1)}).value();
  tasks.Request(0, 1, KeyOf(0), 8, first);
  FileDescriptor silent;
  while (silent.get() < 0) {
    silent = FileDescriptor(accept(listeners[0].get(), nullptr, nullptr));
    std::this_thread::yield();
  }
  listeners.clear();
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
      IsResourceExhausted("task 1 (127.0.0.1:"));
}

TEST(TransferPeersTest, RecordsThatMakeNoSenseEndTheStreamAtTheSender) {
  RunningTasks tasks(2);
  const auto sends = [&](const std::string& message) {
    return CallAs({tasks.address(1), 1}, GoodFields(0, 1),
                  "/tutti.Transfers/Pull", message)
        .error_code();
  };
  const std::string request = Request(1, 0, 4), cancel = Cancel(1);
  EXPECT_EQ(sends(""), grpc::StatusCode::OK);
  EXPECT_EQ(sends(cancel), grpc::StatusCode::OK);
  for (const std::string& message :
       {std::string("x"), request.substr(1), std::string(kRecordBytes, '\xff'),
        request + Request(1, 1, 4), cancel.substr(0, cancel.size() - 1)}) {
    EXPECT_EQ(sends(message), grpc::StatusCode::INTERNAL) << message;
  }
  EXPECT_EQ(sends(std::string(100'000, '\0')),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  tasks.table(1).WaitForRequests(0);
}

}  // namespace transfer_peers_test
}  // namespace tutti
