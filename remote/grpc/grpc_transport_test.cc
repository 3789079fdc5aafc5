#include "remote/grpc/grpc_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/default_environment.h"
#include "remote/grpc/fake_services.h"
#include "remote/grpc/free_port.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

proto::ControlRequest CleanupStep(int64_t step) {
  proto::ControlRequest request;
  request.mutable_cleanup_step()->set_step(step);
  return request;
}

// Answers a step sequence with the key it asks for; others with their kind.
FunctionService EchoService() {
  return FunctionService(
      [](const ControlCaller& caller, const proto::ControlRequest& request,
         std::shared_ptr<Cancellation> /*withdrawn*/, ControlDone done) {
        proto::ControlReply reply;
        reply.mutable_step_sequence()->set_step_id(
            request.cleanup_step().step() + caller.task);
        std::move(done)(reply);
      });
}

std::vector<std::byte> Pattern(size_t num_bytes) {
  std::vector<std::byte> bytes(num_bytes);
  for (size_t i = 0; i < num_bytes; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + (i >> 9));
  }
  return bytes;
}

BufKey Key(int tag) { return {.exec = {.step = 1}, .tag = tag, .from = 1}; }

// Two tasks in this process.
class GrpcTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int task = 0; task < 2; ++task) {
      cluster_.addresses.push_back(absl::StrCat("127.0.0.1:", FreePort()));
    }
    for (int task = 0; task < 2; ++task) {
      transports_.push_back(Make(task));
      ASSERT_THAT(transports_[task]->Start(&control_, &tables_[task]), IsOk());
    }
  }

  std::unique_ptr<Transport> Make(int task) {
    GrpcTransportOptions options{.cluster = cluster_,
                                 .incarnation = 100 + uint64_t(task),
                                 .environment = environment_.get(),
                                 .job_id = "job",
                                 .token = "secret"};
    options.cluster.this_task = task;
    auto transport = CreateGrpcTransport(std::move(options));
    EXPECT_THAT(transport, IsOk());
    return *std::move(transport);
  }

  DefaultEnvironment environment_{2};
  ClusterSpec cluster_;
  FunctionService control_ = EchoService();
  TableService tables_[2];
  std::vector<std::unique_ptr<Transport>> transports_;
};

TEST_F(GrpcTransportTest, ACallIsAnswered) {
  const ControlAnswer answer =
      CallAndWait(transports_[1]->control(), 0, CleanupStep(41));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->step_sequence().step_id(), 42);
}

TEST_F(GrpcTransportTest, BytesOfEverySizeArrive) {
  for (const size_t num_bytes : {0, 1, 7, 1001, 1 << 20, (64 << 20) + 3}) {
    const std::vector<std::byte> bytes = Pattern(num_bytes);
    WaitingLender lender;
    WaitingBorrower borrower(num_bytes);
    tables_[1].Provide(Key(0), {.bytes = bytes, .lender = &lender});
    transports_[0]->transfers().Request(1, Key(0),
                                        {.num_bytes = num_bytes,
                                         .dtype = DType::kUint8,
                                         .borrower = &borrower});
    EXPECT_THAT(borrower.Wait(), IsOk());
    EXPECT_THAT(lender.Wait(), IsOk());
    EXPECT_TRUE(borrower.bytes() == bytes) << num_bytes;
  }
}

TEST_F(GrpcTransportTest, AnUnreachableTaskIsNamed) {
  transports_[1]->Shutdown();
  transports_[1].reset();
  EXPECT_THAT(
      CallAndWait(transports_[0]->control(), 1, CleanupStep(1)),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("task 1 (127.0.0.1:"), HasSubstr("refused"))));
}

}  // namespace
}  // namespace tutti
