#include "tutti/grpc_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/fake_services.h"
#include "remote/grpc/running_tasks_testing.h"
#include "remote/grpc/test_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace grpc_transport_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
                         "what went wrong \"here\" \xc3\xa9\n%"));
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
  auto other = CreateGrpcTransport(tasks.Options(0));
  ASSERT_THAT(other, IsOk());
  FunctionService control(nullptr);
  TableService table;
  EXPECT_THAT((*other)->Start(&control, &table),
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
    auto other = CreateGrpcTransport(tasks.Options(0));
    ASSERT_THAT(other, IsOk());
    Transport& transport = was_started ? tasks.transport(0) : **other;
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
    EXPECT_THAT(Call(tasks, 0, 1, {.to_any_process = true}), IsOk());
    tasks.Stop(1);
    EXPECT_THAT(Call(tasks, 0, 1), IsUnavailable());
    tasks.Start(1);
  }
}

// Unknown connections would keep the next one out.
TEST_F(SameHostSocketsTest, ConnectionsAreKnownByTheirCalls) {
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
    receivers.push_back(std::make_unique<WaitingReceiver>(bytes.size()));
    tasks.Request(0, 1, KeyOf(i), bytes.size(), *receivers[i]);
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

}  // namespace grpc_transport_test
}  // namespace tutti
