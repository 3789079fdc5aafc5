#include "tutti/grpc_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/fake_services.h"
#include "remote/grpc/test_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace grpc_transport_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(GrpcTransportTest, ACallIsAnsweredAndNamesTheCaller) {
  TestTasks tasks(3);
  tasks.StartAll();
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      const ControlAnswer answer =
          CallAndWait(tasks.transport(from).control(), to, CleanupStep(40));
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
    EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(code)),
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
    EXPECT_EQ(
        CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)).status(),
        absl::InternalError(message.substr(0, size)));
  }
}

TEST(GrpcTransportTest, ThereIsNoCallToATaskThatIsNot) {
  TestTasks tasks(2);
  tasks.StartAll();
  for (const int task : {-1, 2, 1 << 20}) {
    EXPECT_THAT(CallAndWait(tasks.transport(0).control(), task, CleanupStep(1)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("no task ", task))));
    WaitingReceiver receiver(4);
    tasks.Request(0, task, KeyOf(0), 4, receiver);
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("no task")));
  }
}

TEST(GrpcTransportTest, ATaskThatCannotBeReachedIsNamedWithTheCause) {
  TestTasks tasks(2);
  tasks.Start(0);
  const auto says_why =
      AllOf(HasSubstr(absl::StrCat("task 1 (", tasks.address(1), ")")),
            HasSubstr("connection refused"));
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)),
              StatusIs(absl::StatusCode::kUnavailable, says_why));
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  EXPECT_THAT(receiver.Wait(),
              StatusIs(absl::StatusCode::kUnavailable, says_why));
}

TEST(GrpcTransportTest, ACallWaitsForATaskThatStartsLater) {
  TestTasks tasks(2);
  tasks.Start(0);
  BlockingCounter answered(1);
  ControlAnswer answer;
  tasks.transport(0).control().Call(1, CleanupStep(7),
                                    {.wait_until_reachable = true},
                                    [&](ControlAnswer given) {
                                      answer = std::move(given);
                                      answered.DecrementCount();
                                    });
  tasks.Start(1);
  answered.Wait();
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->step_sequence().step_id(), 7);
}

TEST(GrpcTransportTest, ARestartIsNoticedOnceAndThenTheNewTaskIsReached) {
  TestTasks tasks(2);
  tasks.StartAll();
  const auto call = [&] {
    return CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1),
                       {.wait_until_reachable = true});
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
  TestTasks tasks(2);
  tasks.StartAll();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(
        CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1),
                    {.wait_until_reachable = true, .to_any_process = true}),
        IsOk());
    tasks.Stop(1);
    tasks.Start(1);
  }
}

TEST(GrpcTransportTest, ATaskThatRestartedAndCallsIsReachedAtOnce) {
  TestTasks tasks(2);
  tasks.StartAll();
  Transport& transport = tasks.transport(0);
  ASSERT_THAT(CallAndWait(transport.control(), 1, CleanupStep(1)), IsOk());
  tasks.Stop(1);
  // Now gRPC waits before it tries to connect again.
  EXPECT_THAT(CallAndWait(transport.control(), 1, CleanupStep(1)), Not(IsOk()));
  tasks.Start(1);
  ASSERT_THAT(CallAndWait(tasks.transport(1).control(), 0, CleanupStep(1)),
              IsOk());
  EXPECT_THAT(CallAndWait(transport.control(), 1, CleanupStep(1)), IsOk());
}

TEST(GrpcTransportTest, ATransferNoticesARestart) {
  TestTasks tasks(2);
  tasks.StartAll();
  ASSERT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)),
              IsOk());
  tasks.Stop(1);
  tasks.Start(1);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("restarted")));
}

TEST(GrpcTransportTest, ATakenPortIsAnErrorThatNamesIt) {
  TestTasks tasks(1);
  tasks.StartAll();
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
  TestTasks tasks(1);
  tasks.StartAll();
  FunctionService control(nullptr);
  EXPECT_THAT(tasks.transport(0).Start(&control, &tasks.table(0)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has been started")));
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
  TestTasks tasks(2);
  tasks.StartAll();
  tasks.transport(0).Shutdown();
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("shut down")));
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  EXPECT_THAT(receiver.Wait(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("shut down")));
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
      EXPECT_THAT(transport,
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr("0.0.0.0"), HasSubstr("TLS"))));
    }
  }
}

TEST(GrpcTransportTest, OptionsThatMakeNoSenseAreRefused) {
  const auto refused = [](auto change) {
    TestTasks tasks(
        1, [&](int, GrpcTransportOptions& options) { change(options); });
    return CreateGrpcTransport(tasks.Options(0)).status();
  };
  const auto is_invalid =
      StatusIs(absl::StatusCode::kInvalidArgument, testing::_);
  using Options = GrpcTransportOptions;
  EXPECT_THAT(refused([](Options& o) { o.incarnation = 0; }), is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.environment.clock = nullptr; }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.cluster.addresses.clear(); }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.bounds.max_frame_bytes = 0; }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.bounds.max_open_transfers = 0; }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.bounds.max_open_streams = 0; }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.transfer_lanes = 513; }), is_invalid);
  EXPECT_THAT(refused([](Options& o) {
                o.bounds.max_open_streams = 7;
                o.transfer_lanes = 4;
              }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.transfer_lanes = 512; }), IsOk());
  EXPECT_THAT(refused([](Options& o) {
                o.bounds.max_control_request_bytes = (32 << 10) - 1;
              }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.tls.key = "/key.pem"; }), is_invalid);
  EXPECT_THAT(refused([](Options& o) { o.bind_address = "no such host"; }),
              is_invalid);
  EXPECT_THAT(refused([](Options& o) {
                o.tls = {.certificate = "/none", .key = "/k", .ca = "/c"};
              }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

// Tasks on which no process listens at the configured address: they listen at
// other addresses of this host. They reach each other over Unix sockets or not
// at all.
class SameHostSocketsTest : public testing::Test {
 protected:
  // Returns OK if task 0 reaches task 1.
  absl::Status Reach(const TestTasks::Change& change) {
    TestTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
      options.bind_address = "127.0.0.2";
      change(task, options);
    });
    tasks.StartAll();
    return CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1))
        .status();
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
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("connection refused")));
  }
}

TEST_F(SameHostSocketsTest, ConnectAgainToATaskThatWasRestarted) {
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bind_address = "127.0.0.2";
  });
  tasks.StartAll();
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1),
                            {.to_any_process = true}),
                IsOk());
    tasks.Stop(1);
    EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)),
                StatusIs(absl::StatusCode::kUnavailable, testing::_));
    tasks.Start(1);
  }
}

// Unknown connections would keep the next one out.
TEST_F(SameHostSocketsTest, ConnectionsAreKnownByTheirCalls) {
  constexpr int kNumLanes = 3;
  TestTasks tasks(2, [](int, GrpcTransportOptions& options) {
    options.bind_address = "127.0.0.2";
    options.bounds.max_unknown_connections = 1;
    options.transfer_lanes = kNumLanes;
  });
  tasks.StartAll();
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)),
              IsOk());
  for (int tag = 0; tag < kNumLanes; ++tag) {
    const std::vector<std::byte> bytes = Pattern(size_t{1} << 20);
    WaitingSender sender;
    WaitingReceiver receiver(bytes.size());
    tasks.table(1).Provide(KeyOf(tag), {.bytes = bytes, .sender = &sender});
    tasks.Request(0, 1, KeyOf(tag), bytes.size(), receiver);
    EXPECT_THAT(receiver.Wait(), IsOk());
    EXPECT_THAT(sender.Wait(), IsOk());
  }
}

}  // namespace grpc_transport_test
}  // namespace tutti
