// Tests peers that do not belong to the job, and clients that are no peers.
// Each is refused with a status, or cut off, and the task goes on serving.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/wire/control_messages.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace refusals_test {

using testing::AllOf;
using testing::HasSubstr;

class RefusalsTest : public testing::Test {
 protected:
  void SetUp() override { tasks_.StartAll(); }

  // Checks that task 0 still serves, whatever came before.
  void TearDown() override {
    EXPECT_THAT(CallAndWait(tasks_.transport(1).control(), 0, CleanupStep(1)),
                IsOk());
  }

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
      const grpc::Status status =
          CallAs(tasks_.address(0), fields, method, std::string(1 << 20, 'x'));
      EXPECT_EQ(status.error_code(), code) << status.error_message();
      EXPECT_THAT(status.error_message(), HasSubstr(text));
    }
  }

  TestTasks tasks_{2};
};

TEST_F(RefusalsTest, AnotherVersionIsToldBoth) {
  ExpectRefused("tutti-protocol", "7", grpc::StatusCode::FAILED_PRECONDITION,
                "the caller speaks version \"7\" of the protocol, task 0");
  ExpectRefused("tutti-protocol", "7", grpc::StatusCode::FAILED_PRECONDITION,
                absl::StrCat("speaks version \"", kProtocolVersion, "\""));
}

TEST_F(RefusalsTest, AnotherJobIsToldBoth) {
  ExpectRefused("tutti-job-bin", "other job",
                grpc::StatusCode::FAILED_PRECONDITION,
                "the caller is of job \"other job\", task 0");
}

TEST_F(RefusalsTest, WithoutTheTokenNothingElseIsLookedAt) {
  for (const char* token : {"", "secre", "secrets", "Secret", "\xff"}) {
    CallFields fields = GoodFields(1, 0);
    fields["tutti-protocol"] = "7";
    fields["tutti-token-bin"] = token;
    ExpectRefused(fields, grpc::StatusCode::UNAUTHENTICATED,
                  "does not have this job's token");
  }
  ExpectRefused(CallFields(), grpc::StatusCode::UNAUTHENTICATED,
                "does not have this job's token");
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

TEST_F(RefusalsTest, NobodyCallsAsIncarnationZero) {
  ExpectRefused("tutti-caller-incarnation", "0",
                grpc::StatusCode::INVALID_ARGUMENT,
                "the caller says that it is incarnation 0 of task 1");
}

TEST_F(RefusalsTest, ACallForAnotherTaskIsToldWhoThisIs) {
  ExpectRefused("tutti-callee", "1", grpc::StatusCode::FAILED_PRECONDITION,
                "the caller wanted task 1, this is task 0");
}

TEST_F(RefusalsTest, ACallForAnotherIncarnationIsToldBoth) {
  ExpectRefused("tutti-callee-incarnation", "12",
                grpc::StatusCode::FAILED_PRECONDITION,
                "restarted: incarnation 12 before, 1001 now");
}

TEST_F(RefusalsTest, AnotherMethodIsRefused) {
  EXPECT_EQ(
      CallAs(tasks_.address(0), GoodFields(1, 0), "/tutti.Control/Other", "")
          .error_code(),
      grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(RefusalsTest, ARequestThatIsNoMessageIsRefused) {
  const grpc::Status status =
      CallAs(tasks_.address(0), GoodFields(1, 0), kControlMethod, "\xff\xff");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ControlRequest"));
}

TEST_F(RefusalsTest, ARequestThatIsTooLargeIsRefusedByWhoeverGetsIt) {
  EXPECT_EQ(CallAs(tasks_.address(0), GoodFields(1, 0), kControlMethod,
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

TEST(RefusedTasksTest, ConnectionsOfNobodyAreBoundedAndTasksGoOn) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(3, [&](int task, GrpcTransportOptions& options) {
    options.bounds.max_unknown_connections = 3;
    if (task == 0) options.environment.clock = simulated.get().clock;
  });
  tasks.StartAll();
  const auto call = [&](int task) {
    return CallAndWait(tasks.transport(task).control(), 0, CleanupStep(1));
  };
  ASSERT_THAT(call(1), IsOk());
  const RawConnection first(tasks.address(0)), second(tasks.address(0)),
      third(tasks.address(0));
  while (simulated.num_alarms() < 3) std::this_thread::yield();
  BlockingCounter answered(1);
  ControlAnswer answer;
  tasks.transport(2).control().Call(0, CleanupStep(1), {},
                                    [&](ControlAnswer given) {
                                      answer = std::move(given);
                                      answered.DecrementCount();
                                    });
  EXPECT_THAT(call(1), IsOk());
  simulated.Advance(absl::Seconds(10));
  for (const RawConnection* nobody : {&first, &second, &third}) {
    nobody->ReadAll();  // Returns once it is closed and there is room.
  }
  answered.Wait();
  EXPECT_THAT(answer, IsOk());
}

TEST(RefusedTasksTest, ConnectionsThatComeTogetherAreAllServed) {
  constexpr int kNumCallers = 8;
  TestTasks tasks(1 + kNumCallers, [](int, GrpcTransportOptions& options) {
    options.bounds.max_unknown_connections = 1;
  });
  tasks.StartAll();
  BlockingCounter answered(kNumCallers);
  for (int task = 1; task <= kNumCallers; ++task) {
    tasks.transport(task).control().Call(0, CleanupStep(1), {},
                                         [&](const ControlAnswer& answer) {
                                           EXPECT_THAT(answer, IsOk());
                                           answered.DecrementCount();
                                         });
  }
  answered.Wait();
}

TEST(RefusedTasksTest, ConnectionsOfTasksStayOverIpv6Too) {
  SimulatedEnvironment simulated(/*seed=*/1);
  BlockingCounter arrived(1), answered(1);
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
  ControlAnswer answer;
  tasks.transport(0).control().Call(1, CleanupStep(1), {},
                                    [&](ControlAnswer given) {
                                      answer = std::move(given);
                                      answered.DecrementCount();
                                    });
  arrived.Wait();
  // The gate would have closed an unknown connection by now.
  simulated.Advance(absl::Minutes(1));
  std::move(pending)(proto::ControlReply());
  answered.Wait();
  EXPECT_THAT(answer, IsOk());
}

TEST(RefusedTasksTest, TasksOfAnotherJobSayWhy) {
  TestTasks tasks(2, [](int task, GrpcTransportOptions& options) {
    options.job_id = absl::StrCat("job ", task);
  });
  tasks.StartAll();
  const auto says_both =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("job \"job 0\""), HasSubstr("job \"job 1\""),
                     HasSubstr("task 1 (")));
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1),
                          {.wait_until_reachable = true}),
              says_both);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  EXPECT_THAT(receiver.Wait(), says_both);
}

TEST(RefusedTasksTest, TasksWithAnotherTokenSayWhy) {
  TestTasks tasks(2, [](int task, GrpcTransportOptions& options) {
    options.token = absl::StrCat("token\n", task);
  });
  tasks.StartAll();
  const auto says_who =
      StatusIs(absl::StatusCode::kUnauthenticated,
               AllOf(HasSubstr("task 1 ("), HasSubstr("this job's token")));
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1),
                          {.wait_until_reachable = true}),
              says_who);
  WaitingReceiver receiver(4);
  tasks.Request(0, 1, KeyOf(0), 4, receiver);
  EXPECT_THAT(receiver.Wait(), says_who);
}

}  // namespace refusals_test
}  // namespace tutti
