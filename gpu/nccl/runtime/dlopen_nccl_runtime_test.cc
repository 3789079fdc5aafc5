#include "gpu/nccl/runtime/dlopen_nccl_runtime.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace {

using ::testing::EndsWith;
using ::testing::SizeIs;

constexpr char kStub[] = "gpu/nccl/runtime/libnccl_stub.so";

// Tests the parts that need no GPU. nccl_stub_testing.cc stands for the
// library.
class DlopenNcclRuntimeTest : public testing::Test {
 protected:
  DlopenNcclRuntimeTest() {
    Fail("");
    UnsetAll();
  }
  ~DlopenNcclRuntimeTest() override { UnsetAll(); }

  static void UnsetAll() {
    for (const char* const name : {"NCCL_STUB_VERSION", "NCCL_STUB_ABORTS",
                                   "NCCL_COMM_BLOCKING", "NCCL_COMM_ID"}) {
      unsetenv(name);
    }
    AtGroupEnd(nullptr);
  }

  static void Fail(const char* call) { setenv("NCCL_STUB_FAILS", call, 1); }
  static void SetVersion(const char* version) {
    setenv("NCCL_STUB_VERSION", version, 1);
  }

  // Opens the stub, and begins a new log.
  static std::shared_ptr<NcclRuntime> Opened() {
    auto opened = OpenNccl(kStub);
    EXPECT_THAT(opened, IsOk());
    Log();
    return *std::move(opened);
  }

  template <typename Function>
  static Function OfStub(const char* name) {
    void* const library = dlopen(kStub, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function>(dlsym(library, name));
  }

  // Sets a function that the stub calls at the end of each group; null: none.
  static void AtGroupEnd(void (*function)()) {
    OfStub<void (*)(void (*)())>("NcclStubAtGroupEnd")(function);
  }

  // Returns the calls since the last Log().
  static std::string Log() {
    static size_t seen = 0;
    const std::string all = OfStub<const char* (*)()>("NcclStubLog")();
    std::string news = all.substr(seen);
    seen = all.size();
    return news;
  }

  static int CountIn(absl::string_view text, absl::string_view part) {
    const std::vector<absl::string_view> pieces = absl::StrSplit(text, part);
    return static_cast<int>(pieces.size()) - 1;
  }

  // Makes the part of a single rank.
  static std::vector<NcclPart> PartOf(std::vector<NcclCall> calls) {
    return {{.calls = std::move(calls)}};
  }

  // Ranks on the two GPUs of host_cudart_testing.cc.
  const std::vector<NcclRank> two_ranks_ = {{.rank = 0, .gpu = 0},
                                            {.rank = 1, .gpu = 1}};
  const std::vector<NcclComm> none_;
  const std::string id_ = std::string(kNcclIdBytes, 'k');
};

TEST_F(DlopenNcclRuntimeTest, CommunicatorsBlockWhereTheEnvironmentWantsIt) {
  EXPECT_EQ(Opened()->WhyBlocking(), "");
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  EXPECT_EQ(Opened()->WhyBlocking(), "");
  setenv("NCCL_COMM_BLOCKING", "2", 1);  // NCCL ignores this value.
  EXPECT_EQ(Opened()->WhyBlocking(), "");
  setenv("NCCL_COMM_BLOCKING", "0x1", 1);
  EXPECT_EQ(Opened()->WhyBlocking(), "NCCL_COMM_BLOCKING is \"0x1\"");
}

TEST_F(DlopenNcclRuntimeTest, CommunicatorsOfAnOldLibraryBlock) {
  SetVersion("21602");
  EXPECT_EQ(Opened()->WhyBlocking(), "NCCL 2.16.2 is older than 2.27.3");
  SetVersion("22606");
  EXPECT_EQ(Opened()->WhyBlocking(), "NCCL 2.26.6 is older than 2.27.3");
  SetVersion("22703");
  EXPECT_EQ(Opened()->WhyBlocking(), "");
}

TEST_F(DlopenNcclRuntimeTest, AnOldLibraryThatMayNotBlockIsRefused) {
  SetVersion("22105");
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  EXPECT_THAT(OpenNccl(kStub),
              IsFailedPrecondition("NCCL_COMM_BLOCKING is \"0\"", "2.21.5",
                                   "unset it"));
}

TEST_F(DlopenNcclRuntimeTest, OneIdForAllCommunicatorsIsRefused) {
  setenv("NCCL_COMM_ID", "here:1234", 1);
  EXPECT_THAT(
      OpenNccl(kStub),
      IsFailedPrecondition("NCCL_COMM_ID is \"here:1234\"", "unset it"));
}

TEST_F(DlopenNcclRuntimeTest, ALibraryThatIsNotThereIsUnavailable) {
  EXPECT_THAT(OpenNccl("libnccl-of-nobody.so.2"),
              IsUnavailable("libnccl-of-nobody.so.2"));
}

TEST_F(DlopenNcclRuntimeTest, AnotherLibraryIsRefusedWithAFunctionItLacks) {
  EXPECT_THAT(OpenNccl("libm.so.6"),
              IsFailedPrecondition("libm.so.6", "no function ncclGetVersion"));
}

TEST_F(DlopenNcclRuntimeTest, ALibraryThatIsTooOldIsRefusedWithItsVersion) {
  SetVersion("21505");
  EXPECT_THAT(OpenNccl(kStub), IsFailedPrecondition("2.15.5", "2.16.2"));
  SetVersion("2708");
  EXPECT_THAT(OpenNccl(kStub), IsFailedPrecondition("is NCCL 2.7.8;"));
}

TEST_F(DlopenNcclRuntimeTest, KnowsVersionAndIds) {
  const auto nccl = Opened();
  EXPECT_EQ(nccl->Version(), "2.28.9");
  EXPECT_THAT(nccl->NewUniqueId().value_or(""), SizeIs(kNcclIdBytes));
  EXPECT_THAT(nccl->CommInitRanks("short", 1, {}), IsInvalidArgument("not 5"));
}

TEST_F(DlopenNcclRuntimeTest, MakesCommunicatorsThatDoNotBlock) {
  const auto nccl = Opened();
  EXPECT_THAT(nccl->CommInitRanks(id_, 3, two_ranks_).value_or(none_),
              SizeIs(2));
  EXPECT_EQ(Log(),
            "ncclGroupStart()\n"
            "ncclCommInitRankConfig(3,0,0,k)\n"
            "ncclCommInitRankConfig(3,1,0,k)\n"
            "ncclGroupEnd()\n");
}

TEST_F(DlopenNcclRuntimeTest, MakesOnesThatBlockWhereThatIsWanted) {
  const auto nccl = Opened();
  EXPECT_THAT(nccl->CommInitBlocking(two_ranks_).value_or(none_), SizeIs(2));
  EXPECT_EQ(Log(),
            "ncclGetUniqueId()\n"
            "ncclGroupStart()\n"
            "ncclCommInitRankConfig(2,0,1,x)\n"
            "ncclCommInitRankConfig(2,1,1,x)\n"
            "ncclGroupEnd()\n");
}

// Uses an id of this process: NCCL then waits for no other process.
TEST_F(DlopenNcclRuntimeTest, OnesThatHaveToBlockAreOfThisProcessAlone) {
  SetVersion("22105");
  const auto nccl = Opened();
  EXPECT_THAT(
      nccl->CommInitRanks(id_, 3, two_ranks_),
      IsFailedPrecondition("2 of the 3 ranks", "2.21.5 is older than 2.27.3"));
  EXPECT_THAT(nccl->NewUniqueId().value_or(""), SizeIs(kNcclIdBytes));
  EXPECT_EQ(Log(), "");
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, two_ranks_).value_or(none_),
              SizeIs(2));
  EXPECT_EQ(Log(),
            "ncclGetUniqueId()\n"
            "ncclGroupStart()\n"
            "ncclCommInitRankConfig(2,0,1,x)\n"
            "ncclCommInitRankConfig(2,1,1,x)\n"
            "ncclGroupEnd()\n");
}

TEST_F(DlopenNcclRuntimeTest, OnesThatWereToBlockAndDoNotAreAborted) {
  SetVersion("22105");
  const auto nccl = Opened();
  Fail("ncclGroupEnd=7");
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, two_ranks_),
              IsFailedPrecondition("NCCL_COMM_BLOCKING=0"));
  EXPECT_THAT(Log(), EndsWith("ncclGroupEnd()\n"
                              "ncclCommAbort()\n"
                              "ncclCommAbort()\n"));
}

TEST_F(DlopenNcclRuntimeTest, ACommunicatorOnNoGpuIsNotMade) {
  const auto nccl = Opened();
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, {{.rank = 0, .gpu = 1}, {.gpu = 2}}),
              IsInvalidArgument("cudaSetDevice on GPU 2"));
  EXPECT_THAT(Log(), EndsWith("ncclGroupEnd()\nncclCommAbort()\n"));
}

// The library would wait for that rank.
TEST_F(DlopenNcclRuntimeTest, AnOldLibraryIsNotCalledForOneOnNoGpu) {
  SetVersion("22105");
  const auto nccl = Opened();
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, {{.rank = 0, .gpu = 1}, {.gpu = 2}}),
              IsInvalidArgument("cudaSetDevice on GPU 2"));
  EXPECT_EQ(Log(), "");
}

TEST_F(DlopenNcclRuntimeTest, AnOldLibraryThatGaveNoIdIsNotAskedAgain) {
  SetVersion("22105");
  const auto nccl = Opened();
  Fail("ncclGetUniqueId=2");
  const auto fails = IsInternal("ncclGetUniqueId");
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, two_ranks_), fails);
  Fail("");
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, two_ranks_), fails);
  EXPECT_EQ(Log(), "ncclGetUniqueId()\n");
}

// NCCL may leave the thread on another GPU after a failure.
TEST_F(DlopenNcclRuntimeTest, AThreadKeepsItsGpu) {
  SetVersion("22105");
  const auto nccl = Opened();
  AtGroupEnd([] { (void)cudaSetDevice(1); });
  int gpu = -1;
  EXPECT_THAT(nccl->Launch(PartOf({{.op = NcclOp::kSend}})), IsOk());
  (void)cudaGetDevice(&gpu);
  EXPECT_EQ(gpu, 0);
  EXPECT_THAT(nccl->CommInitRanks(id_, 2, two_ranks_), IsOk());
  (void)cudaGetDevice(&gpu);
  EXPECT_EQ(gpu, 0);
}

TEST_F(DlopenNcclRuntimeTest, ALaunchIsOneGroupOfAllCalls) {
  const auto nccl = Opened();
  std::vector<NcclPart> parts =
      PartOf({{.op = NcclOp::kAllReduce, .num_elements = 3},
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
            "ncclAllReduce(3,7,0)\n"
            "ncclReduce(4,0,1,1)\n"
            "ncclBroadcast(5,1,2)\n"
            "ncclAllGather(6,9)\n"
            "ncclReduceScatter(7,8,2)\n"
            "ncclSend(8,7,3)\n"
            "ncclRecv(9,4,4)\n"
            "ncclGroupEnd()\n");
}

TEST_F(DlopenNcclRuntimeTest, EveryDTypeIsMovedAsATypeOfItsSize) {
  // Sizes by number of ncclDataType_t.
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  const auto nccl = Opened();
  for (const DType dtype : kAllDTypes) {
    Log();
    EXPECT_THAT(
        nccl->Launch(
            PartOf({{.op = NcclOp::kSend, .num_elements = 3, .dtype = dtype}})),
        IsOk());
    const std::vector<std::string> words = absl::StrSplit(Log(), ',');
    ASSERT_THAT(words, SizeIs(3));
    int type = -1;
    ASSERT_TRUE(absl::SimpleAtoi(words[1], &type));
    EXPECT_TRUE(absl::EndsWith(
        words[0], absl::StrCat("(", 3 * SizeOf(dtype) / kSizes[type])))
        << Name(dtype) << ", " << words[0];
  }
}

TEST_F(DlopenNcclRuntimeTest, AGroupEndsWhereACallInItFails) {
  const auto nccl = Opened();
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
  EXPECT_THAT(nccl->IsReady({}), IsUnavailable("asynchronous"));
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
  setenv("NCCL_STUB_ABORTS", "3", 1);
  EXPECT_THAT(nccl->Abort(std::vector<NcclComm>(3)), IsOk());
  EXPECT_EQ(CountIn(Log(), "ncclCommAbort("), 3);
}

// The last abort frees everything.
TEST_F(DlopenNcclRuntimeTest, AbortsOfAnOldLibraryFollowEachOther) {
  SetVersion("22105");
  const auto nccl = Opened();
  EXPECT_THAT(nccl->Abort(std::vector<NcclComm>(3)), IsOk());
  EXPECT_EQ(Log(), "ncclCommAbort()\nncclCommAbort()\nncclCommAbort()\n");
}

TEST_F(DlopenNcclRuntimeTest, AnEndThatFailsEndsTheOthersToo) {
  const auto nccl = Opened();
  Fail("ncclCommAbort=5");
  EXPECT_THAT(nccl->Abort(std::vector<NcclComm>(2)),
              IsInvalidArgument("ncclCommAbort: invalid usage"));
  EXPECT_EQ(CountIn(Log(), "ncclCommAbort("), 2);
}

}  // namespace
}  // namespace tutti
