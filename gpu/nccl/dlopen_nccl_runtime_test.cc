#include "gpu/nccl/dlopen_nccl_runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kStub[] = "gpu/nccl/libnccl_stub.so";

// The test of what needs no GPU: nccl_stub.cc stands for the library.
class DlopenNcclRuntimeTest : public testing::Test {
 protected:
  DlopenNcclRuntimeTest() {
    Fail("");
    unsetenv("NCCL_COMM_BLOCKING");
  }
  ~DlopenNcclRuntimeTest() override {
    unsetenv("NCCL_STUB_VERSION");
    unsetenv("NCCL_STUB_ABORTS");
    unsetenv("NCCL_COMM_BLOCKING");
  }

  static void Fail(const char* call) { setenv("NCCL_STUB_FAILS", call, 1); }

  static std::shared_ptr<NcclRuntime> Opened() {
    auto opened = DlopenNcclRuntime::Open(kStub);
    EXPECT_THAT(opened, IsOk());
    return *std::move(opened);
  }

  // What was called since the last time.
  static std::string Log() {
    static size_t seen = 0;
    void* const library = dlopen(kStub, RTLD_NOW | RTLD_LOCAL);
    const auto log =
        reinterpret_cast<const char* (*)()>(dlsym(library, "NcclStubLog"));
    const std::string all = log();
    std::string news = all.substr(seen);
    seen = all.size();
    return news;
  }

  // The calls of one rank.
  static std::vector<NcclPart> PartOf(std::vector<NcclCall> calls) {
    return {{.calls = std::move(calls)}};
  }
};

TEST_F(DlopenNcclRuntimeTest, OneThatTheEnvironmentHasBlockIsRefused) {
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  EXPECT_THAT(DlopenNcclRuntime::Open(kStub), IsOk());
  setenv("NCCL_COMM_BLOCKING", "1", 1);
  EXPECT_THAT(DlopenNcclRuntime::Open(kStub),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("NCCL_COMM_BLOCKING is \"1\""),
                             HasSubstr("unset it"))));
}

TEST_F(DlopenNcclRuntimeTest, ALibraryThatIsNotThereIsUnavailable) {
  EXPECT_THAT(DlopenNcclRuntime::Open("libnccl-of-nobody.so.2"),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("libnccl-of-nobody.so.2")));
}

TEST_F(DlopenNcclRuntimeTest, AnotherLibraryIsRefusedWithAFunctionItLacks) {
  EXPECT_THAT(DlopenNcclRuntime::Open("libm.so.6"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("libm.so.6"),
                             HasSubstr("no function ncclGetVersion"))));
}

TEST_F(DlopenNcclRuntimeTest, AnOldLibraryIsRefusedWithItsVersion) {
  setenv("NCCL_STUB_VERSION", "22602", 1);
  EXPECT_THAT(DlopenNcclRuntime::Open(kStub),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("2.26.2"), HasSubstr("2.27.3"))));
  setenv("NCCL_STUB_VERSION", "22703", 1);
  EXPECT_THAT(DlopenNcclRuntime::Open(kStub), IsOk());
}

TEST_F(DlopenNcclRuntimeTest, KnowsVersionAndIds) {
  const auto nccl = Opened();
  EXPECT_EQ(nccl->Version(), "2.28.9");
  EXPECT_THAT(nccl->NewUniqueId().value_or(""), SizeIs(kNcclIdBytes));
  EXPECT_THAT(nccl->CommInitRanks("short", 1, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not 5")));
}

TEST_F(DlopenNcclRuntimeTest, ALaunchIsOneGroupOfAllCalls) {
  const auto nccl = Opened();
  Log();
  std::vector<NcclPart> parts =
      PartOf({{.op = NcclOp::kAllReduce, .num_elements = 3, .is_average = true},
              {.op = NcclOp::kReduce,
               .num_elements = 4,
               .dtype = DType::kInt8,
               .kind = ReductionKind::kProd,
               .peer = 1},
              {.op = NcclOp::kBroadcast,
               .num_elements = 5,
               .dtype = DType::kBool,
               .peer = 2}});
  parts.push_back({.calls = {
                       {.op = NcclOp::kAllGather,
                        .num_elements = 6,
                        .dtype = DType::kBFloat16},
                       {.op = NcclOp::kReduceScatter,
                        .num_elements = 7,
                        .dtype = DType::kFloat64,
                        .kind = ReductionKind::kMax},
                       {.op = NcclOp::kSend, .num_elements = 8, .peer = 3},
                       {.op = NcclOp::kRecv,
                        .num_elements = 9,
                        .dtype = DType::kInt64,
                        .peer = 4},
                   }});
  EXPECT_THAT(nccl->Launch(parts), IsOk());
  EXPECT_EQ(Log(),
            "ncclGroupStart()\n"
            "ncclAllReduce(3,7,4)\n"
            "ncclReduce(4,0,1,1)\n"
            "ncclBroadcast(5,1,2)\n"
            "ncclAllGather(6,9)\n"
            "ncclReduceScatter(7,8,2)\n"
            "ncclSend(8,7,3)\n"
            "ncclRecv(9,4,4)\n"
            "ncclGroupEnd()\n");
}

TEST_F(DlopenNcclRuntimeTest, AGroupEndsWhereACallInItFails) {
  const auto nccl = Opened();
  Log();
  Fail("ncclSend=5");
  EXPECT_THAT(
      nccl->Launch(PartOf({{.op = NcclOp::kSend}, {.op = NcclOp::kRecv}})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "ncclSend: invalid usage (the last one)"));
  EXPECT_EQ(Log(), "ncclGroupStart()\nncclSend(0,7,0)\nncclGroupEnd()\n");
}

TEST_F(DlopenNcclRuntimeTest, WhatIsInProgressIsNoError) {
  const auto nccl = Opened();
  Fail("ncclGroupEnd=7");
  EXPECT_THAT(nccl->Launch(PartOf({{.op = NcclOp::kSend}})), IsOk());
  Fail("ncclCommGetAsyncError=7");
  EXPECT_FALSE(nccl->IsReady({}).value_or(true));
  Fail("ncclCommGetAsyncError=6");
  EXPECT_THAT(nccl->IsReady({}), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("asynchronous")));
  Fail("");
  EXPECT_TRUE(nccl->IsReady({}).value_or(false));
}

TEST_F(DlopenNcclRuntimeTest, FinalizesAllRanksInOneGroupAndDestroysEach) {
  const auto nccl = Opened();
  const std::vector<NcclComm> comms(2);
  Log();
  Fail("ncclCommFinalize=7");  // In progress.
  EXPECT_THAT(nccl->Finalize(comms), IsOk());
  EXPECT_EQ(Log(),
            "ncclGroupStart()\n"
            "ncclCommFinalize()\n"
            "ncclCommFinalize()\n"
            "ncclGroupEnd()\n");
  EXPECT_THAT(nccl->Destroy(comms), IsOk());
  EXPECT_EQ(Log(), "ncclCommDestroy()\nncclCommDestroy()\n");
}

TEST_F(DlopenNcclRuntimeTest, AbortsBeginBeforeOneIsWaitedFor) {
  const auto nccl = Opened();
  Log();
  setenv("NCCL_STUB_ABORTS", "3", 1);
  EXPECT_THAT(nccl->Abort(std::vector<NcclComm>(3)), IsOk());
  EXPECT_EQ(Log(), "ncclCommAbort()\nncclCommAbort()\nncclCommAbort()\n");
}

TEST_F(DlopenNcclRuntimeTest, AnEndThatFailsEndsTheOthersToo) {
  const auto nccl = Opened();
  Log();
  Fail("ncclCommAbort=5");
  EXPECT_THAT(nccl->Abort(std::vector<NcclComm>(2)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ncclCommAbort: invalid usage")));
  EXPECT_EQ(Log(), "ncclCommAbort()\nncclCommAbort()\n");
}

}  // namespace
}  // namespace tutti
