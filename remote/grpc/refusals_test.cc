// Tests peers that do not belong to the job, and clients that are no peers.
// Each is refused with a status, or cut off, and the task goes on serving.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/test_certificates.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/running_tasks_testing.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/wire/control_messages.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {
namespace refusals_test {

using testing::HasSubstr;

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
  RunningTasks tasks(3, [&](int task, GrpcTransportOptions& options) {
    options.bounds.max_unknown_connections = 3;
    if (task == 0) options.environment.clock = simulated.get().clock;
  });
  const auto call = [&](int task) { return Call(tasks, task, 0); };
  ASSERT_THAT(call(1), IsOk());
  const RawConnection first(tasks.address(0)), second(tasks.address(0)),
      third(tasks.address(0));
  while (simulated.num_alarms() < 3) std::this_thread::yield();
  PendingCall pending(tasks.transport(2).control(), 0, CleanupStep(1));
  EXPECT_THAT(call(1), IsOk());
  simulated.Advance(absl::Seconds(10));
  for (const RawConnection* nobody : {&first, &second, &third}) {
    nobody->ReadAll();  // Returns once it is closed and there is room.
  }
  EXPECT_THAT(pending.Wait(), IsOk());
}

TEST(RefusedTasksTest, ConnectionsThatComeTogetherAreAllServed) {
  constexpr int kNumCallers = 8;
  RunningTasks tasks(1 + kNumCallers, [](int, GrpcTransportOptions& options) {
    options.bounds.max_unknown_connections = 1;
  });
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
    LentBytes lent(tasks, 100'000, 0, to);
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
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
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

}  // namespace refusals_test
}  // namespace tutti
