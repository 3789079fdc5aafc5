// The checks of the suite, on the double of the GPU runtime: that they pass
// where all is right and fail where something is wrong.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/gpu/check.h"
#include "bench/gpu/check_list.h"
#include "bench/gpu/fake_timing.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/simulated_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr CheckScale kSmall = {
    .large_elements = 211, .churn_bytes = 1024, .rounds = 9};
constexpr char kFault[] = "a GPU that fails";

struct GpusOptions {
  uint64_t seed = 1;
  int num_gpus = 1;
  PeerLink link = PeerLink::kNvLink;
  bool has_empty_graphs = false;
  std::string why_nccl_blocks;
};

// A machine without GPUs.
template <typename Runtime = FakeGpuRuntime, typename Nccl = FakeNcclRuntime>
struct Gpus {
  explicit Gpus(GpusOptions options = {})
      : environment(options.seed),
        runtime({.num_gpus = options.num_gpus,
                 .memory_bytes = int64_t{1} << 26,
                 .link = [link = options.link](int, int) { return link; },
                 .environment = environment.get()}),
        network(std::make_shared<FakeNcclNetwork>()),
        nccl(std::make_shared<Nccl>(network, &runtime)),
        timing(runtime, {.has_empty_graphs = options.has_empty_graphs}),
        machine(std::make_unique<SimulatedMachine>(runtime, environment)) {
    nccl->Block(options.why_nccl_blocks);
  }
  ~Gpus() { environment.RunAll(); }

  SimulatedEnvironment environment;
  Runtime runtime;
  std::shared_ptr<FakeNcclNetwork> network;
  std::shared_ptr<Nccl> nccl;
  FakeTiming timing;
  std::unique_ptr<SimulatedMachine> machine;

  absl::StatusOr<CheckList> Checks() {
    return AllChecks(runtime, nccl, timing, kSmall);
  }
};

std::vector<std::string> Names(const CheckList& list) {
  std::vector<std::string> names;
  for (const Check& check : list.checks) names.push_back(check.name);
  return names;
}

// Those whose names begin so.
void ExpectAllPassAndLeaveNothing(GpusOptions options,
                                  const std::string& prefix) {
  size_t num_checks = 1;
  int num_run = 0;
  for (size_t i = 0; i < num_checks; ++i) {
    options.seed = i;
    Gpus gpus(options);
    const auto list = gpus.Checks();
    ASSERT_THAT(list, IsOk());
    num_checks = list->checks.size();
    const Check& check = list->checks[i];
    if (check.name == kFault || !absl::StartsWith(check.name, prefix)) continue;
    ++num_run;
    const auto num_users = gpus.nccl.use_count();
    EXPECT_THAT(check.run(*gpus.machine), IsOk()) << check.name;
    gpus.machine.reset();
    gpus.environment.RunAll();
    EXPECT_THAT(gpus.runtime.Mistakes(), IsEmpty()) << check.name;
    EXPECT_THAT(gpus.runtime.Leaks(), IsEmpty()) << check.name;
    EXPECT_THAT(gpus.network->Mistakes(), IsEmpty()) << check.name;
    EXPECT_EQ(gpus.network->counts().living, 0) << check.name;
    EXPECT_EQ(gpus.nccl.use_count(), num_users) << check.name;
  }
  EXPECT_GT(num_run, 0) << prefix;
}

TEST(SuiteChecksTest, AllPassAndLeaveNothing) {
  ExpectAllPassAndLeaveNothing({.num_gpus = 2}, /*prefix=*/"");
}

TEST(SuiteChecksTest, TasksOfSeveralGpusPassAndLeaveNothing) {
  ExpectAllPassAndLeaveNothing({.num_gpus = 4}, "2 tasks of 2 GPUs: ");
}

TEST(SuiteChecksTest, AllOfNcclPassesWhereItsCommunicatorsBlock) {
  const GpusOptions options = {.num_gpus = 4, .why_nccl_blocks = "it is old"};
  ExpectAllPassAndLeaveNothing(options, "4 GPUs of 1 devices: Nccl");
  ExpectAllPassAndLeaveNothing(options, "2 tasks of 2 GPUs: ");
}

TEST(SuiteChecksTest, NamesAreUnique) {
  Gpus gpus({.num_gpus = 4});
  const auto list = gpus.Checks();
  ASSERT_THAT(list, IsOk());
  std::map<std::string, int> counts;
  for (const std::string& name : Names(*list)) {
    EXPECT_EQ(++counts[name], 1) << name;
  }
  EXPECT_THAT(Names(*list), Contains("kernels of GPU 3: sum of bfloat16"));
  EXPECT_THAT(Names(*list), Contains("4 GPUs of 1 devices: GpuLocalReduce"));
  EXPECT_THAT(Names(*list), Contains("1 GPUs of 1 devices: NcclReduce"));
  EXPECT_THAT(Names(*list), Contains("4 GPUs of 1 devices: NcclThenRing"));
  EXPECT_THAT(Names(*list), Contains("2 tasks of 2 GPUs: NcclThenRing"));
  EXPECT_THAT(Names(*list),
              Contains("2 tasks of 1 devices on GPU 0: NcclThenRing"));
  EXPECT_THAT(list->left_out, IsEmpty());
}

TEST(SuiteChecksTest, WhatTheMachineLacksIsSaid) {
  Gpus one;
  EXPECT_THAT(one.Checks()->left_out,
              ElementsAre("groups over several GPUs, and aborts of their "
                          "launches: there is one GPU"));
  EXPECT_THAT(AllChecks(one.runtime,
                        absl::UnavailableError("libnccl.so.2: no such file"),
                        one.timing, kSmall)
                  ->left_out,
              Contains("collectives of NCCL: libnccl.so.2: no such file"));
  Gpus blocking({.why_nccl_blocks = "it is old"});
  EXPECT_THAT(blocking.Checks()->left_out,
              Contains("aborts of NCCL: it runs within one process alone, as "
                       "it is old"));
  Gpus apart({.num_gpus = 2, .link = PeerLink::kNone});
  const auto list = apart.Checks();
  EXPECT_THAT(
      list->left_out,
      ElementsAre("NCCL within several tasks of 2 GPUs: there are 2 GPUs",
                  HasSubstr("GPU 0 has no link to GPU 1")));
  EXPECT_THAT(Names(*list),
              Not(Contains("2 GPUs of 1 devices: GpuLocalReduce")));
  Gpus none({.num_gpus = 0});
  EXPECT_THAT(none.Checks(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no GPU")));
}

TEST(SuiteChecksTest, AGpuThatFailsIsNoticed) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Gpus gpus({.seed = seed});
    const auto list = gpus.Checks();
    ASSERT_THAT(list, IsOk());
    ASSERT_EQ(list->checks.back().name, kFault);  // Nothing can run after it.
    EXPECT_THAT(list->checks.back().run(*gpus.machine), IsOk()) << seed;
  }
}

// Does one thing wrong.
class WrongRuntime : public FakeGpuRuntime {
 public:
  using FakeGpuRuntime::FakeGpuRuntime;

  enum class Wrong {
    kNothing,
    kReduce,      // The last element is not written.
    kCopyTooFar,  // A byte more is written.
    kMisaligned,  // Or less, of what does not begin at 16 bytes.
    kNoOrder,     // Nothing waits for events.
    kStaging,     // No kernel reads all that is in pinned memory.
    kEarlyCall,   // The host is called before the stream comes there.
    kNoCall,      // Or never.
    kBlocks,      // A launch returns when the stream is past it.
  };
  Wrong wrong = Wrong::kNothing;

  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override {
    GpuReduction launched = reduction;
    if (launched.num_elements > 1 &&
        (wrong == Wrong::kReduce || LacksOf(launched.inputs))) {
      --launched.num_elements;
    }
    return Launched(FakeGpuRuntime::LaunchReduce(launched, stream), stream);
  }
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override {
    GpuCopy launched = copy;
    if (wrong == Wrong::kCopyTooFar) ++launched.num_bytes;
    const auto address = reinterpret_cast<uintptr_t>(launched.input);
    if ((wrong == Wrong::kMisaligned && address % 16 != 0) ||
        LacksOf({launched.input})) {
      --launched.num_bytes;
    }
    return Launched(FakeGpuRuntime::LaunchCopy(launched, stream), stream);
  }
  absl::Status WaitForEvent(GpuStream stream, GpuEvent event) override {
    if (wrong == Wrong::kNoOrder) return absl::OkStatus();
    return FakeGpuRuntime::WaitForEvent(stream, event);
  }
  absl::Status CallHost(StatusCallback call, GpuStream stream) override {
    if (wrong == Wrong::kEarlyCall) {
      std::move(call)(absl::OkStatus());
      return absl::OkStatus();
    }
    if (wrong == Wrong::kNoCall) {
      never.push_back(std::move(call));
      return absl::OkStatus();
    }
    return FakeGpuRuntime::CallHost(std::move(call), stream);
  }

  absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                              int gpu) override {
    auto memory = FakeGpuRuntime::AllocatePinned(num_bytes, gpu);
    if (memory.ok()) pinned.emplace(memory->data, num_bytes);
    return memory;
  }

  SimulatedEnvironment* environment = nullptr;
  std::vector<StatusCallback> never;
  std::map<const void*, size_t> pinned;  // By where it begins.

 private:
  // Time goes on as long as the host waits.
  absl::Status Launched(absl::Status status, GpuStream stream) {
    if (!status.ok() || wrong != Wrong::kBlocks) return status;
    auto event = NewEvent(*this, stream.gpu);
    if (!event.ok()) return event.status();
    status = RecordEvent(event->get(), stream);
    while (status.ok() && !*IsDone(event->get())) {
      environment->RunAll();
      environment->Advance(absl::Seconds(1));
    }
    return status;
  }

  // Whether one of the inputs is in pinned memory that kernels do not read to
  // the end.
  bool LacksOf(absl::Span<const void* const> inputs) const {
    return wrong == Wrong::kStaging &&
           absl::c_any_of(inputs, [&](const void* input) {
             const auto next = pinned.upper_bound(input);
             if (next == pinned.begin()) return false;
             const auto& [begin, num_bytes] = *std::prev(next);
             return input < static_cast<const std::byte*>(begin) + num_bytes;
           });
  }
};

// What the check of this name says.
template <typename Gpus>
absl::Status RunCheck(Gpus& gpus, const std::string& name) {
  const auto list = gpus.Checks();
  for (const Check& check : list->checks) {
    if (check.name == name) return check.run(*gpus.machine);
  }
  return absl::NotFoundError(name);
}

// The same where something is wrong.
absl::Status RunWhereWrong(WrongRuntime::Wrong wrong, const std::string& name) {
  Gpus<WrongRuntime> gpus;
  gpus.runtime.environment = &gpus.environment;
  gpus.runtime.wrong = wrong;
  absl::Status status = RunCheck(gpus, name);
  gpus.runtime.wrong = WrongRuntime::Wrong::kNothing;
  return status;
}

TEST(SuiteChecksTest, WhatIsWrongIsFoundAndNamed) {
  using Wrong = WrongRuntime::Wrong;
  EXPECT_THAT(RunWhereWrong(Wrong::kReduce, "kernels of GPU 0: sum of float16"),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("1 inputs and 8 outputs"),
                             HasSubstr("output "))));
  EXPECT_THAT(RunWhereWrong(Wrong::kCopyTooFar, "kernels of GPU 0: copy"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("memory around the buffers")));
  EXPECT_THAT(
      RunWhereWrong(Wrong::kReduce, "1 GPUs of 8 devices: GpuLocalReduce"),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("rank 0: byte ")));
  for (const char* const name : {"1 GPUs of 4 devices: GpuLocalBroadcast",
                                 "1 GPUs of 4 devices: GpuLocalGather"}) {
    EXPECT_THAT(RunWhereWrong(Wrong::kMisaligned, name),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(": byte ")))
        << name;
    EXPECT_THAT(RunWhereWrong(Wrong::kNoOrder, name), Not(IsOk())) << name;
  }
  EXPECT_THAT(RunWhereWrong(Wrong::kNoOrder, "devices: order of streams"),
              Not(IsOk()));
  EXPECT_THAT(RunWhereWrong(Wrong::kNoOrder,
                            "1 GPUs of 4 devices: GpuLocalReduce, many in a "
                            "row"),
              Not(IsOk()));
  EXPECT_THAT(RunWhereWrong(Wrong::kEarlyCall, "devices: NotifyWhenDone"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("was read")));
  EXPECT_THAT(RunWhereWrong(Wrong::kNoCall, "devices: NotifyWhenDone"),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("NotifyWhenDone")));
}

TEST(SuiteChecksTest, AGraphThatDoesNothingIsFound) {
  Gpus gpus({.has_empty_graphs = true});
  EXPECT_THAT(RunCheck(gpus, "kernels of GPU 0: reductions in graphs"),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("sum of "), HasSubstr("output "))));
  EXPECT_THAT(RunCheck(gpus, "kernels of GPU 0: copies in graphs"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("output ")));
}

// Rather than hanging where the streams are held.
TEST(SuiteChecksTest, ALaunchThatWaitsForItsStreamIsFound) {
  EXPECT_THAT(
      RunWhereWrong(WrongRuntime::Wrong::kBlocks,
                    "1 GPUs of 4 devices: no wait of the host between steps"),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("a call of the host waits for a stream: 0 of 24 "
                         "launches had returned 10s after")));
}

// What tasks send each other passes through it, and nothing else does that a
// kernel reads.
TEST(SuiteChecksTest, WhatIsWrongOfPinnedMemoryIsFoundAmongTasks) {
  using Wrong = WrongRuntime::Wrong;
  EXPECT_THAT(RunWhereWrong(Wrong::kStaging, "1 GPUs of 2 devices: RingReduce"),
              IsOk());
  for (const char* const name :
       {"2 tasks of 1 devices on GPU 0: RingReduce",
        "2 tasks of 2 devices on GPU 0: HierarchicalRingReduce",
        "2 tasks of 1 devices on GPU 0: TreeReduce",
        "2 tasks of 1 devices on GPU 0: NcclThenRing"}) {
    EXPECT_THAT(RunWhereWrong(Wrong::kStaging, name),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(": byte ")))
        << name;
  }
}

// Every call leaves out its last element.
class ShortNccl : public FakeNcclRuntime {
 public:
  using FakeNcclRuntime::FakeNcclRuntime;

  absl::Status Launch(absl::Span<const NcclPart> parts) override {
    std::vector<NcclPart> launched(parts.begin(), parts.end());
    for (NcclPart& part : launched) {
      for (NcclCall& call : part.calls) --call.num_elements;
    }
    return FakeNcclRuntime::Launch(launched);
  }
};

// What the checks of NCCL over two GPUs say, by name.
template <typename Gpus>
std::map<std::string, absl::Status> RunNcclChecks(Gpus& gpus) {
  std::map<std::string, absl::Status> found;
  const auto list = gpus.Checks();
  for (const Check& check : list->checks) {
    if (!absl::StartsWith(check.name, "2 GPUs of 1 devices: Nccl")) continue;
    found.emplace(check.name, check.run(*gpus.machine));
  }
  return found;
}

TEST(SuiteChecksTest, WhatNcclDoesWrongIsFoundByEachOfItsChecks) {
  Gpus<FakeGpuRuntime, ShortNccl> gpus({.num_gpus = 2});
  const auto found = RunNcclChecks(gpus);
  EXPECT_EQ(found.size(), 9u);
  for (const auto& [name, status] : found) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr("rank 0: byte ")))
        << name;
  }
}

TEST(SuiteChecksTest, WhatNcclDoesWrongIsFoundWithinTasks) {
  for (const char* const name : {"NcclThenRing", "NcclThenShuffle",
                                 "NcclThenRecursiveHalvingDoubling"}) {
    Gpus<FakeGpuRuntime, ShortNccl> gpus({.num_gpus = 4});
    EXPECT_THAT(RunCheck(gpus, absl::StrCat("2 tasks of 2 GPUs: ", name)),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(": byte ")))
        << name;
  }
}

TEST(SuiteChecksTest, AnNcclThatFailsIsNamed) {
  Gpus gpus({.num_gpus = 2});
  gpus.network->FailNextInit(absl::InternalError("no luck"));
  const auto found = RunNcclChecks(gpus);
  EXPECT_THAT(found.at("2 GPUs of 1 devices: NcclReduce"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no luck")));
  EXPECT_THAT(found.at("2 GPUs of 1 devices: NcclGather"), IsOk());
}

// An abort takes long. Where one does nothing the suite gives up
// (SuiteMachine), as what hangs goes on using its devices.
class SlowAbortNccl : public FakeNcclRuntime {
 public:
  using FakeNcclRuntime::FakeNcclRuntime;

  SimulatedEnvironment* environment = nullptr;

  absl::Status Abort(absl::Span<const NcclComm> comms) override {
    environment->Advance(absl::Seconds(6));
    return FakeNcclRuntime::Abort(comms);
  }
};

TEST(SuiteChecksTest, AnAbortThatTakesLongIsNamed) {
  for (const char* const name : {"aborts: an NcclReduce that lacks a rank",
                                 "aborts: a communicator of NCCL that lacks a "
                                 "rank"}) {
    Gpus<FakeGpuRuntime, SlowAbortNccl> gpus({.num_gpus = 2});
    gpus.nccl->environment = &gpus.environment;
    EXPECT_THAT(RunCheck(gpus, name),
                StatusIs(absl::StatusCode::kInternal,
                         AllOf(HasSubstr("took 6"), HasSubstr("than 5s"))));
  }
}

// Makes communicators of one rank.
class HastyNccl : public FakeNcclRuntime {
 public:
  using FakeNcclRuntime::FakeNcclRuntime;

  absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int /*size*/,
      absl::Span<const NcclRank> ranks) override {
    return FakeNcclRuntime::CommInitRanks(id, 1, ranks);
  }
};

TEST(SuiteChecksTest, WhatDoesNotHangWithoutARankIsNamed) {
  Gpus<FakeGpuRuntime, HastyNccl> gpus;
  EXPECT_THAT(
      RunCheck(gpus, "aborts: a communicator of NCCL that lacks a rank"),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("no communicator without rank 1")));
}

TEST(GpuImageTest, TheFirstByteThatDiffersIsNamed) {
  EXPECT_THAT(CompareBytes("it", {1, 2, 3}, Bytes{1, 2, 3}.data()), IsOk());
  EXPECT_THAT(CompareBytes("it", {1, 2, 3}, Bytes{1, 5, 4}.data()),
              StatusIs(absl::StatusCode::kInternal,
                       "it: byte 1 of 3 is 0x05, not 0x02; 2 differ"));
}

}  // namespace
}  // namespace tutti
