// Tests of the exact bits of sums of floats.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then.h"
#include "implementations/two_level/local_then_testing.h"
#include "schedule/engine/stand_in.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_bits_test {

using testing::Combine;
using testing::HasSubstr;
using testing::Optional;
using testing::Values;

using Call = Processes::Call;

REGISTER_COLLECTIVE(ThenShuffle, LocalThenFactory<"ShuffleReduce">());

// Returns the name under which a program can run the stand-in of `name`.
std::string RunnableStandIn(const std::string& name) {
  CollectiveRegistry& registry = CollectiveRegistry::Global();
  std::string runnable = "StandInFor" + name;
  if (registry.Find(runnable).ok()) return runnable;
  const auto stand_in = StandInOf(**registry.Find(name));
  EXPECT_THAT(stand_in.status(), IsOk());
  EXPECT_THAT(registry.Register(runnable, Scheduled(stand_in->algorithm)),
              IsOk());
  return runnable;
}

// Runs the same calls. Each order of operands gives different bits.
std::vector<Call> RunFloats(Processes& processes, const std::string& name,
                            int64_t num_elements, const FinalOp& final_op,
                            bool in_place, CollImplDetails details = {}) {
  static int64_t instance = 0;
  CollectiveRequest request =
      processes.Request(name, DType::kFloat32, num_elements);
  request.instance_key = ++instance;
  request.final_op = final_op;
  details.implementation = name;
  request.impl_details = std::move(details);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kFloat32, num_elements);
  processes.RunAll(request, calls, in_place);
  return calls;
}

class StandInBitsTest
    : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {
};
INSTANTIATE_TEST_SUITE_P(
    NamesAndDevices, StandInBitsTest,
    Combine(Values("LocalThenRing", "LocalThenRecursiveHalvingDoubling",
                   "LocalThenDoubleTree", "LocalThenRecursiveDoubling",
                   "ThenShuffle"),
            Values(std::vector<int>{1}, std::vector<int>{4},
                   std::vector<int>{1, 1, 1, 1}, std::vector<int>{2, 2},
                   std::vector<int>{4, 4}, std::vector<int>{3, 1, 2},
                   std::vector<int>{3, 3, 3, 3})));

TEST_P(StandInBitsTest, AreThoseOfWhatRuns) {
  const auto& [name, devices] = GetParam();
  const std::string stand_in = RunnableStandIn(name);
  Processes processes(devices);
  for (const FinalOp& final_op : {FinalOp(), FinalOp::DivideByGroupSize()}) {
    for (const int64_t num_elements : {0, 1, 3, 7, 1001, 40'003}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(num_elements);
        const auto run =
            RunFloats(processes, name, num_elements, final_op, in_place);
        const auto shown =
            RunFloats(processes, stand_in, num_elements, final_op, in_place);
        ASSERT_THAT(run[0].status, Optional(IsOk()));
        ExpectAll(run, run[0].result());
        ExpectAll(shown, run[0].result());
      }
    }
  }
}

TEST(LocalThenTest, StandInsOfSeveralSubdivisionsHaveTheSameBits) {
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4 - 12345;
  Processes processes({2, 3});
  for (const std::string name : {"LocalThenRing", "LocalThenDoubleTree"}) {
    const auto run = RunFloats(processes, name, kNumElements, FinalOp(),
                               /*in_place=*/false);
    const auto shown = RunFloats(processes, RunnableStandIn(name), kNumElements,
                                 FinalOp(), /*in_place=*/false);
    ASSERT_THAT(run[0].status, Optional(IsOk()));
    ExpectAll(shown, run[0].result());
  }
}

// Expects that the details change nothing but what they change in the stand-in.
void ExpectStandInBits(const std::string& name, const CollImplDetails& details,
                       Processes& processes) {
  const FinalOp average = FinalOp::DivideByGroupSize();
  const auto run = RunFloats(processes, name, 1001, average,
                             /*in_place=*/false, details);
  const auto shown = RunFloats(processes, RunnableStandIn(name), 1001, average,
                               /*in_place=*/false, details);
  ASSERT_THAT(run[0].status, Optional(IsOk()));
  ExpectAll(run, run[0].result());
  ExpectAll(shown, run[0].result());
}

TEST(LocalThenTest, StandInsOfDetailsHaveTheSameBits) {
  Processes processes({2, 1, 3, 1, 2});
  for (const std::string name : {"LocalThenRing", "LocalThenDoubleTree"}) {
    ExpectStandInBits(name, {.subdiv_offsets = {0, -1, 2}}, processes);
  }
  ExpectStandInBits("LocalThenRing", {.rank_list = {7, 4, 0, 2, 1, 3, 5, 6, 8}},
                    processes);
  ExpectStandInBits("ThenShuffle", {.rank_list = {8, 3, 2, 7}}, processes);
}

TEST(LocalThenTest, ListedRanksOrderTheirTasksBetweenProcesses) {
  Processes processes({2, 1, 3, 1, 2});
  const auto sums = [&](std::vector<int> rank_list) {
    return RunFloats(processes, "LocalThenRing", 1001, FinalOp(),
                     /*in_place=*/false, {.rank_list = std::move(rank_list)})[0]
        .result();
  };
  const Bytes listed = sums({7, 4, 0, 2, 1, 3, 5, 6, 8});
  EXPECT_NE(listed, sums({}));
  EXPECT_EQ(listed, sums({8, 7, 3, 1, 0, 2, 6, 5, 4}));
}

TEST(LocalThenTest, DetailsOfAnotherScheduleAreRefused) {
  Processes processes({2, 2});
  for (const auto& [details, why] :
       {std::pair{CollImplDetails{.subdiv_offsets = {0, 1}},
                  "has no subdivisions"},
        std::pair{CollImplDetails{.rank_list = {1, 0, 2, 3}},
                  "takes no list of ranks"}}) {
    const auto calls =
        RunFloats(processes, "LocalThenRecursiveDoubling", 7, FinalOp(),
                  /*in_place=*/false, details);
    EXPECT_THAT(
        calls[0].status,
        Optional(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why))));
  }
}

TEST(LocalThenTest, FloatsThatAreSummedInAnotherOrderHaveOtherBits) {
  Processes processes({3, 3, 3, 3});
  const auto sums = [&](const char* name) {
    return RunFloats(processes, name, 1001, FinalOp(),
                     /*in_place=*/false)[0]
        .result();
  };
  EXPECT_NE(sums("LocalThenRing"), sums("LocalThenRecursiveDoubling"));
  EXPECT_NE(sums("LocalThenRing"), sums("RingReduce"));
}

TEST(LocalThenTest, SumsOfManyChunksHaveTheSameBitsInAnyOrder) {
  for (const char* const name : {"ThenRing", "ThenHalving", "ThenTrees"}) {
    SCOPED_TRACE(name);
    Bytes first;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      Processes processes({2, 1, 3}, seed);
      const std::vector<Call> calls =
          RunFloats(processes, name, 6 * kChunkElements + 1, FinalOp(),
                    /*in_place=*/seed % 3 == 0);
      if (first.empty()) first = calls[0].result();
      ExpectAll(calls, first);
    }
  }
}

}  // namespace local_then_bits_test
}  // namespace tutti
