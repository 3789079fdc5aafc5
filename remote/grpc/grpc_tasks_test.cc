// Tests of tasks that gRPC connects: starting and stopping, calls, refusals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/certificates_testing.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/loopback_listeners.h"
#include "remote/grpc/control_client.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/tasks_testing.h"
#include "remote/grpc/wire/control_messages.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {
namespace grpc_tasks_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// --- Transport ---------------------------------------------------------------

TEST(GrpcTransportTest, ACallIsAnsweredAndNamesTheCaller) {
  RunningTasks tasks(3);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      const ControlAnswer answer = Call(tasks, from, to, {}, 40);
      ASSERT_THAT(answer, IsOk());
      EXPECT_EQ(answer->step_sequence().step_id(), 40 + from);
    }
  }
}

TEST(GrpcTransportTest, StatusesOfTheServiceSurviveTheWire) {
  TestTasks tasks(2);
  tasks.set_control(std::make_unique<FunctionService>(
      [](const ControlCaller&, const proto::ControlRequest& request,
         std::shared_ptr<Cancellation>, ControlDone done) {
        std::move(done)(absl::Status(
            static_cast<absl::StatusCode>(request.cleanup_step().step()),
            "what went wrong \"here\" \xc3\xa9\n%"));
      }));
  tasks.StartAll();
  for (int code = 1; code <= 16; ++code) {
    EXPECT_THAT(Call(tasks, 0, 1, {}, code),
                StatusIs(static_cast<absl::StatusCode>(code),
                         "what went wrong \"here\" \xc3\xa9\\x0a%"));
  }
}

TEST(GrpcTransportTest, LongMessagesOfStatusesAreCut) {
  // Characters outside printable ASCII take three bytes on the wire.
  const std::pair<std::string, size_t> cases[] = {
      {"x", 4096}, {"%", 4096 / 3}, {"\u00e9", 4096 / 6 * 2}};
  for (const auto& [character, size] : cases) {
    std::string message;
    while (message.size() < (1 << 20)) message += character;
    TestTasks tasks(2);
    tasks.set_control(std::make_unique<FunctionService>(
        [&message](const ControlCaller&, const proto::ControlRequest&,
                   std::shared_ptr<Cancellation>, ControlDone done) {
          std::move(done)(absl::InternalError(message));
        }));
    tasks.StartAll();
    EXPECT_EQ(Call(tasks, 0, 1).status(),
              absl::InternalError(message.substr(0, size)));
  }
}

TEST(GrpcTransportTest, ThereIsNoCallToATaskThatIsNot) {
  RunningTasks tasks(2);
  for (const int task : {-1, 2, 1 << 20}) {
    EXPECT_THAT(Call(tasks, 0, task),
                IsInvalidArgument(absl::StrCat("no task ", task)));
    EXPECT_THAT(EndOfPull(tasks, 0, task), IsInvalidArgument("no task"));
  }
}

TEST(GrpcTransportTest, ATaskThatCannotBeReachedIsNamedWithTheCause) {
  TestTasks tasks(2);
  tasks.Start(0);
  const auto says_why =
      AllOf(HasSubstr(absl::StrCat("task 1 (", tasks.address(1), ")")),
            HasSubstr("connection refused"));
  EXPECT_THAT(Call(tasks, 0, 1),
              StatusIs(absl::StatusCode::kUnavailable, says_why));
  EXPECT_THAT(EndOfPull(tasks, 0, 1),
              StatusIs(absl::StatusCode::kUnavailable, says_why));
}

TEST(GrpcTransportTest, ACallWaitsForATaskThatStartsLater) {
  TestTasks tasks(2);
  tasks.Start(0);
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(7),
                   {.wait_until_reachable = true});
  tasks.Start(1);
  const ControlAnswer& answer = call.Wait();
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->step_sequence().step_id(), 7);
}

TEST(GrpcTransportTest, ARestartIsNoticedOnceAndThenTheNewTaskIsReached) {
  RunningTasks tasks(2);
  const auto call = [&] {
    return Call(tasks, 0, 1, {.wait_until_reachable = true});
  };
  ASSERT_THAT(call(), IsOk());
  const uint64_t before = tasks.incarnation(1);
  tasks.Stop(1);
  tasks.Start(1);
  EXPECT_THAT(call(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               absl::StrCat("task 1 (", tasks.address(1),
                                            ") restarted: incarnation ", before,
                                            " before, ", tasks.incarnation(1),
                                            " now")));
  EXPECT_THAT(call(), IsOk());
}

TEST(GrpcTransportTest, ACallToAnyProcessReachesTheOneThatRestarted) {
  RunningTasks tasks(2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Call(tasks, 0, 1,
                     {.wait_until_reachable = true, .to_any_process = true}),
                IsOk());
    tasks.Stop(1);
    tasks.Start(1);
  }
}

TEST(GrpcTransportTest, ATaskThatRestartedAndCallsIsReachedAtOnce) {
  RunningTasks tasks(2);
  Transport& transport = tasks.transport(0);
  ASSERT_THAT(CallAndWait(transport.control(), 1, CleanupStep(1)), IsOk());
  tasks.Stop(1);
  // Now gRPC waits before it tries to connect again.
  EXPECT_THAT(CallAndWait(transport.control(), 1, CleanupStep(1)), Not(IsOk()));
  tasks.Start(1);
  ASSERT_THAT(Call(tasks, 1, 0), IsOk());
  EXPECT_THAT(CallAndWait(transport.control(), 1, CleanupStep(1)), IsOk());
}

TEST(GrpcTransportTest, ATransferNoticesARestart) {
  RunningTasks tasks(2);
  ASSERT_THAT(Call(tasks, 0, 1), IsOk());
  tasks.Stop(1);
  tasks.Start(1);
  EXPECT_THAT(EndOfPull(tasks, 0, 1), IsFailedPrecondition("restarted"));
}

TEST(GrpcTransportTest, ATakenPortIsAnErrorThatNamesIt) {
  RunningTasks tasks(1);
  auto other = CreateGrpcTransport(tasks.Options(0)).value();
  FunctionService control(nullptr);
  TableService table;
  EXPECT_THAT(other->Start(&control, &table),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot listen at ", tasks.address(0),
                                    ": address in use")));
}

TEST(GrpcTransportTest, StartsOnce) {
  RunningTasks tasks(1);
  FunctionService control(nullptr);
  EXPECT_THAT(tasks.transport(0).Start(&control, &tasks.table(0)),
              IsFailedPrecondition("has been started"));
}

TEST(GrpcTransportTest, DoesNotStartAfterShutdown) {
  for (const bool was_started : {false, true}) {
    TestTasks tasks(1);
    if (was_started) tasks.StartAll();
    auto other = CreateGrpcTransport(tasks.Options(0)).value();
    Transport& transport = was_started ? tasks.transport(0) : *other;
    transport.Shutdown();
    FunctionService control(nullptr);
    EXPECT_THAT(transport.Start(&control, &tasks.table(0)),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         "the transport has been shut down"));
  }
}

TEST(GrpcTransportTest, CallsNobodyAfterShutdown) {
  RunningTasks tasks(2);
  tasks.transport(0).Shutdown();
  EXPECT_THAT(Call(tasks, 0, 1), IsCancelled("shut down"));
  EXPECT_THAT(EndOfPull(tasks, 0, 1), IsCancelled("shut down"));
}

TEST(GrpcTransportTest, ListeningForOtherMachinesNeedsTlsOrConsent) {
  for (const bool insecure : {false, true}) {
    TestTasks tasks(1, [&](int, GrpcTransportOptions& options) {
      options.bind_address = "0.0.0.0";
      options.insecure = insecure;
    });
    const auto transport = CreateGrpcTransport(tasks.Options(0));
    if (insecure) {
      EXPECT_THAT(transport, IsOk());
    } else {
      EXPECT_THAT(transport, IsInvalidArgument("0.0.0.0", "TLS"));
    }
  }
}

TEST(GrpcTransportTest, ListensWithSocketsThatItIsGiven) {
  auto listeners = LoopbackListeners::Open().value();
  FileDescriptor elsewhere = std::move(ListenAt({"0.0.0.0:0"}).value()[0]);
  {
    TestTasks tasks(1, [&](int, GrpcTransportOptions& options) {
      options.listeners = {listeners.sockets[0].get(), elsewhere.get()};
    });
    EXPECT_THAT(
        CreateGrpcTransport(tasks.Options(0)),
        IsInvalidArgument("would listen at 127.0.0.1:", ", 0.0.0.0:", "TLS"));
  }
  TestTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
    options.cluster.addresses[1] = listeners.address;
    if (task == 1) options.listeners = listeners.descriptors();
  });
  tasks.Start(1);
  for (FileDescriptor& socket : listeners.sockets) socket.Release();
  tasks.Start(0);
  EXPECT_THAT(Call(tasks, 0, 1), IsOk());
  tasks.Stop(1);
  EXPECT_THAT(ListenAt({listeners.address}), IsOk());
}

TEST(GrpcTransportTest, OptionsThatMakeNoSenseAreRefused) {
  using Change = std::function<void(GrpcTransportOptions&)>;
  const auto create = [](const Change& change) {
    TestTasks tasks(
        1, [&](int, GrpcTransportOptions& options) { change(options); });
    return CreateGrpcTransport(tasks.Options(0)).status();
  };
  const Change invalid[] = {
      [](auto& o) { o.incarnation = 0; },
      [](auto& o) { o.environment.clock = nullptr; },
      [](auto& o) { o.cluster.addresses.clear(); },
      [](auto& o) { o.bounds.max_frame_bytes = 0; },
      [](auto& o) { o.bounds.max_open_transfers = 0; },
      [](auto& o) { o.bounds.max_open_streams = 0; },
      [](auto& o) { o.transfer_lanes = 513; },
      [](auto& o) { o.bounds.max_open_streams = 7, o.transfer_lanes = 4; },
      [](auto& o) { o.bounds.max_control_request_bytes = (32 << 10) - 1; },
      [](auto& o) { o.tls.key = "/key.pem"; },
      [](auto& o) { o.listeners = {12345}; },
      [](auto& o) { o.bind_address = "no such host"; }};
  for (size_t i = 0; i < std::size(invalid); ++i) {
    EXPECT_THAT(create(invalid[i]), IsInvalidArgument()) << i;
  }
  EXPECT_THAT(create([](auto& o) { o.transfer_lanes = 512; }), IsOk());
  EXPECT_THAT(create([](auto& o) {
                o.tls = {.certificate = "/none", .key = "/k", .ca = "/c"};
              }),
              IsNotFound("/none"));
}

// Tasks on which no process listens at the configured address: they listen at
// other addresses of this host. They reach each other over Unix sockets or not
// at all.
class SameHostSocketsTest : public testing::Test {
 protected:
  // Returns OK if task 0 reaches task 1.
  absl::Status Reach(const TestTasks::Change& change) {
    RunningTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
      options.bind_address = "127.0.0.2";
      change(task, options);
    });
    return Call(tasks, 0, 1).status();
  }
};

TEST_F(SameHostSocketsTest, ReachTasksOfThisHost) {
  EXPECT_THAT(Reach([](int, GrpcTransportOptions&) {}), IsOk());
}

TEST_F(SameHostSocketsTest, AreUsedIfBothTasksWantThem) {
  for (const int unwilling : {0, 1}) {
    EXPECT_THAT(Reach([=](int task, GrpcTransportOptions& options) {
                  options.same_host_socket = task != unwilling;
                }),
                IsUnavailable("connection refused"));
  }
}

TEST_F(SameHostSocketsTest, ConnectAgainToATaskThatWasRestarted) {
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bind_address = "127.0.0.2";
  });
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THAT(Call(tasks, 0, 1,
                     {.wait_until_reachable = true, .to_any_process = true}),
                IsOk());
    tasks.Stop(1);
    EXPECT_THAT(Call(tasks, 0, 1), IsUnavailable());
    tasks.Start(1);
  }
}

// Unknown connections would end with the next one.
TEST_F(SameHostSocketsTest, ConnectionsAreKnownByTheirProofs) {
  constexpr int kNumLanes = 3;
  RunningTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bind_address = "127.0.0.2";
    options.bounds.max_unknown_connections = 1;
    options.transfer_lanes = kNumLanes;
  });
  EXPECT_THAT(Call(tasks, 0, 1), IsOk());
  for (int tag = 0; tag < kNumLanes; ++tag) {
    ExpectArrive(tasks, size_t{1} << 20, DType::kUint8, tag);
  }
}

size_t NumEntries(const char* folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder),
                    std::filesystem::directory_iterator()));
}

// Runs two tasks, and shuts them down in the middle of their transfers.
void StartTalkAndStop() {
  RunningTasks tasks(2);
  ASSERT_THAT(Call(tasks, 0, 1), IsOk());
  const std::vector<std::byte> bytes = Pattern(size_t{8} << 20);
  std::vector<WaitingSender> senders(4);
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int i = 0; i < 8; ++i) {
    receivers.push_back(
        std::make_unique<RequestedBytes>(tasks, bytes.size(), i));
  }
  for (int i = 0; i < 4; ++i) {
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .sender = &senders[i]});
  }
  receivers[0]->WaitForPart();
  ControlAnswer answer;
  tasks.transport(1).control().Call(
      0, CleanupStep(1), {},
      [&](ControlAnswer given) { answer = std::move(given); });
  tasks.Stop(1);
  tasks.Stop(0);
  // No transfer is under way now; offers without a request are ours.
  for (auto& receiver : receivers) receiver->Wait().IgnoreError();
}

TEST(ShutdownTest, RepeatedlyLeavesNoFileAndNoThread) {
  // gRPC keeps a few of both.
  constexpr int kNumTimes = 20;
  for (int i = 0; i < 5; ++i) StartTalkAndStop();
  const size_t num_files = NumEntries("/proc/self/fd");
  const size_t num_threads = NumEntries("/proc/self/task");
  for (int i = 0; i < kNumTimes; ++i) StartTalkAndStop();
  EXPECT_LT(NumEntries("/proc/self/fd"), num_files + kNumTimes);
  EXPECT_LT(NumEntries("/proc/self/task"), num_threads + kNumTimes);
}

TEST(ShutdownTest, ATransportThatWasNeverStartedGoes) {
  TestTasks tasks(2);
  tasks.Start(0);
  tasks.transport(0).Shutdown();
  tasks.transport(0).Shutdown();
}

// --- Calls -------------------------------------------------------------------

// Two tasks, which answer a call once its caller withdraws it. None runs yet.
class SilentTasks : public TestTasks {
 public:
  explicit SilentTasks(Change change = nullptr)
      : TestTasks(2, std::move(change)) {
    set_control(std::make_unique<FunctionService>(
        [this](const ControlCaller&, const proto::ControlRequest&,
               std::shared_ptr<Cancellation> is_withdrawn, ControlDone done) {
          arrived.DecrementCount();
          is_withdrawn->Watch([this, done = std::move(done)](
                                  const absl::Status& reason) mutable {
            std::move(done)(reason);
            withdrawn.DecrementCount();
          });
        }));
  }

  // The end of a task may withdraw a call.
  ~SilentTasks() {
    for (const int task : {0, 1}) Stop(task);
  }

  BlockingCounter arrived{1};
  BlockingCounter withdrawn{1};
};

// Gives tasks a simulated clock.
TestTasks::Change ClockOf(SimulatedEnvironment& simulated) {
  return [&simulated](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  };
}

auto IsNoAnswerFor3Seconds(TestTasks& tasks) {
  return StatusIs(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("no answer from task 1 (", tasks.address(1), ") for 3.0 s"));
}

TEST(ControlClientTest, ACancelledCallEndsWithTheReasonAndReachesTheService) {
  SilentTasks tasks;
  tasks.StartAll();
  const auto cancellation = std::make_shared<Cancellation>();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1),
                   {.cancellation = cancellation});
  tasks.arrived.Wait();
  cancellation->Cancel(absl::AbortedError("enough"));
  EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  tasks.withdrawn.Wait();
}

TEST(ControlClientTest, ACallThatIsCancelledBeforeItBeginsEnds) {
  RunningTasks tasks(2);
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel(absl::AbortedError("enough"));
  EXPECT_THAT(Call(tasks, 0, 1, {.cancellation = cancellation}),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(ControlClientTest, ADeadlineEndsACallAndReachesTheService) {
  SimulatedEnvironment simulated(/*seed=*/1);
  SilentTasks tasks(ClockOf(simulated));
  tasks.StartAll();
  PendingCall call(
      tasks.transport(0).control(), 1, CleanupStep(1),
      {.deadline = simulated.get().clock->Now() + absl::Seconds(3)});
  tasks.arrived.Wait();
  simulated.Advance(absl::Seconds(3));
  EXPECT_THAT(call.Wait(), IsNoAnswerFor3Seconds(tasks));
  tasks.withdrawn.Wait();
}

// Delays the alarm for one time, as if it were held up as it began to run.
class HeldUpClock final : public Clock {
 public:
  HeldUpClock(Clock* clock, absl::Time held_up)
      : clock_(clock), held_up_(held_up) {}

  absl::Time Now() override {
    ++num_requested_;
    return clock_->Now();
  }
  AlarmId CallAt(absl::Time when, Work alarm) override {
    if (when != held_up_) return clock_->CallAt(when, std::move(alarm));
    alarm_ = std::move(alarm);
    return kHeldUp;
  }
  bool Cancel(AlarmId id) override {
    return id != kHeldUp && clock_->Cancel(id);
  }

  void RunAlarm() { std::exchange(alarm_, nullptr)(); }
  int num_requested() const { return num_requested_; }

 private:
  static constexpr AlarmId kHeldUp = ~AlarmId{0};

  Clock* const clock_;
  const absl::Time held_up_;
  std::atomic<int> num_requested_ = 0;
  Work alarm_;  // Owned by the thread that makes the call.
};

TEST(ControlClientTest, ADeadlineAfterTheCallAndItsTransportTouchesNeither) {
  SimulatedEnvironment simulated(/*seed=*/1);
  const absl::Time deadline = simulated.get().clock->Now() + absl::Seconds(3);
  HeldUpClock clock(simulated.get().clock, deadline);
  RunningTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
    if (task == 0) options.environment.clock = &clock;
  });
  EXPECT_THAT(Call(tasks, 0, 1, {.deadline = deadline}), IsOk());
  tasks.Stop(0);
  const int num_requested = clock.num_requested();
  clock.RunAlarm();
  EXPECT_EQ(clock.num_requested(), num_requested);
}

TEST(ControlClientTest, ADeadlineSaysWhyTheTaskCouldNotBeReached) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(2, ClockOf(simulated));
  tasks.Start(0);
  EXPECT_THAT(Call(tasks, 0, 1), IsUnavailable());  // None follows for 100 ms.
  PendingCall call(
      tasks.transport(0).control(), 1, CleanupStep(1),
      {.deadline = simulated.get().clock->Now() + absl::Milliseconds(150),
       .wait_until_reachable = true});
  // Wait for the second alarm: the call was refused, and will try again.
  while (simulated.num_alarms() < 2) std::this_thread::yield();
  simulated.Advance(absl::Milliseconds(150));
  EXPECT_THAT(call.Wait(),
              IsDeadlineExceeded(absl::StrCat("task 1 (", tasks.address(1)),
                                 "connection refused"));
}

TEST(ControlClientTest, ADeadlineDoesNotSayOfATaskThatWasReachedThatItIsNot) {
  SimulatedEnvironment simulated(/*seed=*/1);
  SilentTasks tasks([&](int task, GrpcTransportOptions& options) {
    if (task == 0) options.environment.clock = simulated.get().clock;
  });
  tasks.Start(0);
  EXPECT_THAT(Call(tasks, 0, 1), IsUnavailable());  // None follows for 100 ms.
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1),
                   {.deadline = simulated.get().clock->Now() + absl::Seconds(3),
                    .wait_until_reachable = true});
  // Wait for the second alarm: the call was refused, and will try again.
  while (simulated.num_alarms() < 2) std::this_thread::yield();
  tasks.Start(1);
  simulated.Advance(absl::Milliseconds(100));
  tasks.arrived.Wait();
  simulated.Advance(absl::Seconds(3));
  EXPECT_THAT(call.Wait(), IsNoAnswerFor3Seconds(tasks));
  tasks.withdrawn.Wait();
}

TEST(ControlClientTest, AClosedConnectionEndsTheCall) {
  SilentTasks tasks;
  tasks.StartAll();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1), {});
  tasks.arrived.Wait();
  tasks.Stop(1);
  EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                    absl::StrCat("task 1 (", tasks.address(1),
                                                 "): connection closed")));
}

TEST(ControlClientTest, ShutdownEndsCallsWithCancelled) {
  SilentTasks tasks;
  tasks.StartAll();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1), {});
  // Ends even a call that waits for its next attempt.
  tasks.Stop(0);
  EXPECT_THAT(call.Wait(), IsCancelled("shut down"));
}

TEST(ControlClientTest, ShutdownEndsACallThatWaitsForATask) {
  TestTasks tasks(2);
  tasks.Start(0);
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1),
                   {.wait_until_reachable = true});
  tasks.Stop(0);
  EXPECT_THAT(call.Wait(), IsCancelled("shut down"));
}

// Holds the calls for step 0 until their callers withdraw them.
std::unique_ptr<ControlService> HoldsStepZero(BlockingCounter* arrived) {
  return std::make_unique<FunctionService>(
      [=](const ControlCaller&, const proto::ControlRequest& request,
          std::shared_ptr<Cancellation> withdrawn, ControlDone done) {
        if (request.cleanup_step().step() != 0) {
          return std::move(done)(proto::ControlReply());
        }
        arrived->DecrementCount();
        withdrawn->Watch(
            [done = std::move(done)](const absl::Status& reason) mutable {
              std::move(done)(reason);
            });
      });
}

// Members of many collectives wait like this for a late task.
TEST(ControlClientTest, CallsThatWaitHoldUpNoOthers) {
  constexpr int kNumWaiting = 5000;
  BlockingCounter arrived(kNumWaiting), ended(kNumWaiting);
  TestTasks tasks(2);
  tasks.set_control(HoldsStepZero(&arrived));
  tasks.StartAll();
  const auto cancellation = std::make_shared<Cancellation>();
  ControlChannel& channel = tasks.transport(0).control();
  for (int i = 0; i < kNumWaiting; ++i) {
    channel.Call(1, CleanupStep(0), {.cancellation = cancellation},
                 [&](const ControlAnswer&) { ended.DecrementCount(); });
  }
  arrived.Wait();
  EXPECT_THAT(CallAndWait(channel, 1, CleanupStep(1)), IsOk());
  cancellation->Cancel(absl::CancelledError("enough"));
  ended.Wait();
}

TEST(ControlClientTest, MoreCallsThanTheBoundAreRefusedNotHeldUp) {
  BlockingCounter arrived(3), ended(3);
  TestTasks tasks(3, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_calls = 3;
  });
  tasks.set_control(HoldsStepZero(&arrived));
  tasks.StartAll();
  const auto cancellation = std::make_shared<Cancellation>();
  ControlChannel& channel = tasks.transport(0).control();
  for (int i = 0; i < 3; ++i) {
    channel.Call(1, CleanupStep(0), {.cancellation = cancellation},
                 [&](const ControlAnswer&) { ended.DecrementCount(); });
  }
  arrived.Wait();
  EXPECT_THAT(CallAndWait(channel, 1, CleanupStep(1)),
              IsResourceExhausted(absl::StrCat("task 0 (", tasks.address(0),
                                               ") has 3 calls open at task 1"),
                                  "no more are taken"));
  EXPECT_THAT(Call(tasks, 2, 1), IsOk());
  cancellation->Cancel(absl::CancelledError("enough"));
  ended.Wait();
  // Retry: a caller may see the end before the count drops.
  while (!CallAndWait(channel, 1, CleanupStep(1)).ok()) {
    std::this_thread::yield();
  }
}

TEST(ControlClientTest, ARequestThatIsTooLargeIsRefused) {
  RunningTasks tasks(2);
  proto::ControlRequest request;
  request.mutable_complete_params()->mutable_request()->set_merge_op(
      std::string(65 << 10, 'x'));
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, request),
              IsResourceExhausted("65536", "task 1"));
}

TEST(ControlClientTest, AnAnswerThatIsTooLargeIsRefused) {
  TestTasks tasks(2);
  tasks.set_control(std::make_unique<FunctionService>(
      [](const ControlCaller&, const proto::ControlRequest& request,
         std::shared_ptr<Cancellation>, ControlDone done) {
        proto::ControlReply reply;
        reply.mutable_describe_waiting()->set_text(std::string(
            static_cast<size_t>(request.cleanup_step().step()), 'x'));
        std::move(done)(reply);
      }));
  tasks.StartAll();
  EXPECT_THAT(Call(tasks, 0, 1, {}, (4 << 20) - 100), IsOk());
  EXPECT_THAT(Call(tasks, 0, 1, {}, 4 << 20), IsResourceExhausted("4194304"));
}

// --- Refusals ----------------------------------------------------------------

class RefusalsTest : public testing::Test {
 protected:
  void SetUp() override { tasks_.StartAll(); }

  // Checks that task 0 still serves, whatever came before.
  void TearDown() override { EXPECT_THAT(Call(tasks_, 1, 0), IsOk()); }

  // Checks how task 0 answers a call and a stream with one changed field.
  void ExpectRefused(const std::string& field, const std::string& value,
                     grpc::StatusCode code, const std::string& text) {
    CallFields fields = GoodFields(1, 0);
    fields[field] = value;
    ExpectRefused(fields, code, text);
  }

  void ExpectRefused(const CallFields& fields, grpc::StatusCode code,
                     const std::string& text) {
    for (const char* method : {kControlMethod, kTransferMethod}) {
      // Message too large to be read.
      const grpc::Status status = CallAs({tasks_.address(0), 0}, fields, method,
                                         std::string(1 << 20, 'x'));
      EXPECT_EQ(status.error_code(), code) << status.error_message();
      EXPECT_THAT(status.error_message(), HasSubstr(text));
    }
  }

  TestTasks tasks_{2};
};

TEST_F(RefusalsTest, ACallThatIsMeantOtherwiseIsToldBoth) {
  struct Case {
    const char* field;
    const char* value;
    grpc::StatusCode code;
    std::string text;
  };
  using enum grpc::StatusCode;
  for (const Case& wrong : std::vector<Case>{
           {"tutti-protocol", "7", FAILED_PRECONDITION,
            "the caller speaks version \"7\" of the protocol, task 0"},
           {"tutti-protocol", "7", FAILED_PRECONDITION,
            absl::StrCat("speaks version \"", kProtocolVersion, "\"")},
           {"tutti-job-bin", "other job", FAILED_PRECONDITION,
            "the caller is of job \"other job\", task 0"},
           {"tutti-callee", "1", FAILED_PRECONDITION,
            "the caller wanted task 1, this is task 0"},
           {"tutti-callee-incarnation", "12", FAILED_PRECONDITION,
            "restarted: incarnation 12 before, 1001 now"},
           {"tutti-caller-incarnation", "0", INVALID_ARGUMENT,
            "the caller says that it is incarnation 0 of task 1"}}) {
    ExpectRefused(wrong.field, wrong.value, wrong.code, wrong.text);
  }
}

TEST_F(RefusalsTest, ATaskThatIsNotIsRefused) {
  for (const char* task : {"2", "-1", "2147483647"}) {
    ExpectRefused("tutti-caller", task, grpc::StatusCode::INVALID_ARGUMENT,
                  absl::StrCat("task ", task, " of a cluster of 2 tasks"));
  }
  for (const char* task : {"", "x", "99999999999"}) {
    ExpectRefused("tutti-caller", task, grpc::StatusCode::INVALID_ARGUMENT,
                  "is no number");
  }
}

TEST_F(RefusalsTest, FieldsThatCannotBeReadAreRefused) {
  for (const char* field : {"tutti-caller-incarnation", "tutti-callee",
                            "tutti-callee-incarnation"}) {
    for (const char* value : {"", "-", "99999999999999999999999"}) {
      ExpectRefused(field, value, grpc::StatusCode::INVALID_ARGUMENT, field);
    }
    CallFields fields = GoodFields(1, 0);
    fields.erase(field);
    ExpectRefused(fields, grpc::StatusCode::INVALID_ARGUMENT, field);
  }
}

TEST_F(RefusalsTest, AnotherMethodIsRefused) {
  EXPECT_EQ(CallAs({tasks_.address(0), 0}, GoodFields(1, 0),
                   "/tutti.Control/Other", "")
                .error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(RefusalsTest, ARequestThatIsNoMessageIsRefused) {
  const grpc::Status status = CallAs({tasks_.address(0), 0}, GoodFields(1, 0),
                                     kControlMethod, "\xff\xff");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ControlRequest"));
}

TEST_F(RefusalsTest, ARequestThatIsTooLargeIsRefusedByWhoeverGetsIt) {
  EXPECT_EQ(CallAs({tasks_.address(0), 0}, GoodFields(1, 0), kControlMethod,
                   std::string((64 << 10) + 1, 'x'))
                .error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(RefusalsTest, WhatIsNoGrpcIsCutOff) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("\x16\x03\x01\0\5hello", 10), std::string(100'000, '\0'),
        std::string(100'000, '\xff'),
        // Preface of HTTP/2, then nonsense.
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
            std::string(1000, '\x01')}) {
    SendRaw(tasks_.address(0), bytes);  // Returns once it is closed.
  }
}

TEST(RefusedTasksTest, SilentConnectionsKeepNoTaskOut) {
  RunningTasks tasks(3, [&](int, GrpcTransportOptions& options) {
    options.bounds.max_unknown_connections = 4;
    options.same_host_socket = false;
  });
  const auto call = [&](int task) { return Call(tasks, task, 0); };
  ASSERT_THAT(call(1), IsOk());
  std::vector<RawConnection> silent;
  for (int i = 0; i < 64; ++i) silent.emplace_back(tasks.address(0));
  EXPECT_THAT(call(1), IsOk());
  EXPECT_THAT(call(2), IsOk());
  silent.front().ReadAll();  // Returns, because it is closed.
}

TEST(RefusedTasksTest, ConnectionsThatComeTogetherAreAllServed) {
  constexpr int kNumCallers = 8;
  RunningTasks tasks(1 + kNumCallers, [](int, GrpcTransportOptions& options) {
    options.bounds.max_unknown_connections = 2;
  });
  BlockingCounter answered(kNumCallers);
  for (int task = 1; task <= kNumCallers; ++task) {
    tasks.transport(task).control().Call(0, CleanupStep(1),
                                         {.wait_until_reachable = true},
                                         [&](const ControlAnswer& answer) {
                                           EXPECT_THAT(answer, IsOk());
                                           answered.DecrementCount();
                                         });
  }
  answered.Wait();
}

TEST(RefusedTasksTest, ConnectionsOfTasksStayOverIpv6Too) {
  SimulatedEnvironment simulated(/*seed=*/1);
  BlockingCounter arrived(1);
  ControlDone pending;
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
    options.same_host_socket = false;
    for (std::string& address : options.cluster.addresses) {
      address = absl::StrCat("[::1]:", SplitAddress(address).port);
    }
  });
  if (!ListenAt({"[::1]:0"}).ok()) GTEST_SKIP() << "this machine has no IPv6";
  tasks.set_control(std::make_unique<FunctionService>(
      [&](const ControlCaller&, const proto::ControlRequest&,
          std::shared_ptr<Cancellation>, ControlDone done) {
        pending = std::move(done);
        arrived.DecrementCount();
      }));
  tasks.StartAll();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1));
  arrived.Wait();
  // The gate would have closed an unknown connection by now.
  simulated.Advance(absl::Minutes(1));
  std::move(pending)(proto::ControlReply());
  EXPECT_THAT(call.Wait(), IsOk());
}

TEST(RefusedTasksTest, TasksOfAnotherJobSayWhy) {
  RunningTasks tasks(2, [](int task, GrpcTransportOptions& options) {
    options.job_id = absl::StrCat("job ", task);
  });
  const auto says_both =
      IsFailedPrecondition("job \"job 0\"", "job \"job 1\"", "task 1 (");
  EXPECT_THAT(Call(tasks, 0, 1, {.wait_until_reachable = true}), says_both);
  EXPECT_THAT(EndOfPull(tasks, 0, 1), says_both);
}

TEST(RefusedTasksTest, TasksWithAnotherTokenSayWhy) {
  RunningTasks tasks(2, [](int task, GrpcTransportOptions& options) {
    options.token = absl::StrCat("token\n", task);
  });
  const auto says_who = IsUnauthenticated("task 1 (", "this job's token");
  EXPECT_THAT(Call(tasks, 0, 1, {.wait_until_reachable = true}), says_who);
  EXPECT_THAT(EndOfPull(tasks, 0, 1), says_who);
}

// Two tasks: task 0 has a good certificate, task 1 the one under test. Tests
// both directions.
struct Pair {
  explicit Pair(const TlsOptions& zero, const TlsOptions& one)
      : tasks(2, [=](int task, GrpcTransportOptions& options) {
          options.tls = task == 0 ? zero : one;
        }) {}
  absl::Status Call(int from, int to) {
    return tutti::Call(tasks, from, to, {.wait_until_reachable = true})
        .status();
  }
  absl::Status Pull(int from, int to) {
    OfferedBytes lent(tasks, 100'000, 0, to);
    WaitingReceiver receiver(lent.bytes().size());
    tasks.Request(from, to, KeyOf(0), lent.bytes().size(), receiver);
    const absl::Status status = receiver.Wait();
    // Callers without permission do not get the offer.
    if (status.ok()) return lent.Wait();
    return status;
  }
  RunningTasks tasks;
};

TEST(TlsTest, TasksWithTheirCertificatesTalk) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.Issue("task-1"));
  EXPECT_THAT(pair.Call(0, 1), IsOk());
  EXPECT_THAT(pair.Call(1, 0), IsOk());
  EXPECT_THAT(pair.Pull(0, 1), IsOk());
}

TEST(TlsTest, TasksWithAnotherTokenSayWhy) {
  TestCertificates ca("ca");
  RunningTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
    options.tls = ca.Issue(absl::StrCat("task-", task));
    options.token = absl::StrCat("token ", task);
  });
  EXPECT_THAT(Call(tasks, 0, 1, {.wait_until_reachable = true}),
              IsUnauthenticated("task 1 (", "this job's token"));
}

TEST(TlsTest, ACertificateOfAnotherTaskIsRefusedByBothSides) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.Issue("task-7"));
  EXPECT_THAT(pair.Call(0, 1),
              IsPermissionDenied("task 1 (", "certificate names another task"));
  const auto is_refused = IsPermissionDenied("task-1", "task-7");
  EXPECT_THAT(pair.Call(1, 0), is_refused);
  EXPECT_THAT(pair.Pull(1, 0), is_refused);
}

TEST(TlsTest, ACertificateOfAnUnknownCaIsRefusedByBothSides) {
  TestCertificates ca("ca"), other("other");
  Pair pair(ca.Issue("task-0"), other.Issue("task-1"));
  EXPECT_THAT(pair.Call(0, 1), IsUnauthenticated("task 1 ("));
  EXPECT_THAT(pair.Call(1, 0), IsUnauthenticated("task 0 ("));
}

TEST(TlsTest, AnExpiredCertificateIsRefusedByBothSides) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.IssueExpired("task-1"));
  EXPECT_THAT(pair.Call(0, 1), IsUnauthenticated("task 1 (", "expired"));
  const absl::Status status = Call(pair.tasks, 1, 0).status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsUnauthenticated(status))
      << status;
  EXPECT_THAT(status.message(), HasSubstr("task 0 ("));
}

TEST(TlsTest, PlaintextAndTlsDoNotMix) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), TlsOptions());
  EXPECT_THAT(pair.Call(0, 1),
              IsFailedPrecondition("task 1 (", "does not speak TLS"));
  const absl::Status status = Call(pair.tasks, 1, 0).status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsFailedPrecondition(status))
      << status;
  EXPECT_THAT(status.message(), HasSubstr("task 0 ("));
}

TEST(TlsTest, GarbageAtTheTlsPortIsCutOff) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.Issue("task-1"));
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\0'),
        std::string("\x16\x03\x01\xff\xff") + std::string(70'000, 'x')}) {
    SendRaw(pair.tasks.address(0), bytes);
  }
  EXPECT_THAT(pair.Call(1, 0), IsOk());
}

TEST(TlsTest, ServesTls13Alone) {
  TestCertificates ca("ca");
  const TlsOptions good = ca.Issue("task-1");
  Pair pair(ca.Issue("task-0"), good);
  const auto connects = [&](const std::string& version) {
    return std::system(
               absl::StrCat("openssl s_client -connect ", pair.tasks.address(0),
                            " -cert ", good.certificate, " -key ", good.key,
                            " -CAfile ", good.ca, " -alpn h2 ", version,
                            " -verify_return_error </dev/null >/dev/null 2>&1")
                   .c_str()) == 0;
  };
  EXPECT_TRUE(connects(""));
  EXPECT_TRUE(connects("-tls1_3"));
  EXPECT_FALSE(connects("-tls1_2"));
  EXPECT_FALSE(connects("-no_tls1_3"));
}

TEST(TlsTest, SaysWhyAFileCannotBeRead) {
  TestCertificates ca("ca");
  const TlsOptions good = ca.Issue("task-0");
  const std::string empty = testing::TempDir() + "empty.pem";
  std::ofstream{empty};
  const std::pair<std::string, absl::Status> cases[] = {
      {empty, absl::InvalidArgumentError(absl::StrCat(
                  empty, " is empty; wanted a file in PEM format"))},
      {"/", absl::InvalidArgumentError(
                "/ is a directory; wanted a file in PEM format")},
      {"/none",
       absl::NotFoundError("cannot read /none: No such file or directory")},
      {good.key + "/none",
       absl::FailedPreconditionError(
           absl::StrCat("cannot read ", good.key, "/none: Not a directory"))}};
  for (const auto& [path, wanted] : cases) {
    TestTasks tasks(1, [&, &path = path](int, GrpcTransportOptions& options) {
      options.tls = good;
      options.tls.certificate = path;
    });
    EXPECT_EQ(CreateGrpcTransport(tasks.Options(0)).status(), wanted);
  }
}

TEST(TlsTest, FilesThatDoNotFitAreAnErrorAtTheStart) {
  TestCertificates ca("ca");
  const TlsOptions good = ca.Issue("task-0");
  TlsOptions other_key = good;
  other_key.key = ca.Issue("task-0").key;
  TlsOptions no_certificate = good;
  no_certificate.certificate = good.key;
  TlsOptions no_key = good;
  no_key.key = good.certificate;
  TlsOptions no_ca = good;
  no_ca.ca = good.key;
  const std::pair<TlsOptions, std::string> cases[] = {
      {other_key, absl::StrCat("the key ", other_key.key, " is not that of ",
                               "the certificate ", good.certificate)},
      {no_certificate, absl::StrCat(good.key, " holds no certificate")},
      {no_key, absl::StrCat(good.certificate, " holds no key")},
      {no_ca, absl::StrCat("the CA ", good.key, " holds no certificate")}};
  for (const auto& [tls, wanted] : cases) {
    TestTasks tasks(1, [&tls = tls](int, GrpcTransportOptions& options) {
      options.tls = tls;
    });
    EXPECT_THAT(CreateGrpcTransport(tasks.Options(0)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::StartsWith(wanted)));
  }
}

}  // namespace grpc_tasks_test
}  // namespace tutti
