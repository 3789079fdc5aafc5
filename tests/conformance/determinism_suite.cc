// Runs the implementation again and again, each time in another order of work,
// by other numbers of threads, and on every layout where its class of
// determinism promises that this makes no difference: the outputs have the same
// bits each time. Unlike in the other suites, nothing says which bits: sums are
// rounded, so that they tell any difference in the order of summation.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/conformance/case.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti::conformance {
namespace {

constexpr int kNumbersOfThreads[] = {1, 2, 5};

struct Repetitions {
  uint64_t seeds;  // Orders of work.
  int on_threads;  // With each number of threads, in any order of work.
};
constexpr Repetitions kMany = {.seeds = 100, .on_threads = 5};
constexpr Repetitions kFew = {.seeds = 10, .on_threads = 2};

// The second is cut into pieces that are reduced on their own.
constexpr int64_t kLengths[] = {1001, 40'009};

Tensor TensorOf(const Case& c, const Bytes& bytes) {
  const auto num_elements =
      static_cast<int64_t>(bytes.size() / SizeOf(c.dtype));
  Tensor tensor = *Tensor::Allocate(c.dtype, ShapeOf(c, num_elements));
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_data());
  return tensor;
}

// In rank order; unset where a rank has none.
std::vector<Tensor> MakeInputTensors(const Case& c) {
  std::vector<Tensor> inputs(c.grid.size());
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    if (!HasInput(c.type, rank, c.root)) continue;
    inputs[rank] = TensorOf(
        c, RandomElements(c.dtype, InputElements(c, rank), Rounding::kAny,
                          /*seed=*/static_cast<uint64_t>(rank) + 1));
  }
  return inputs;
}

// A case, and which devices its ranks have; others are in no group.
struct Placed {
  const ImplementationUnderTest* under_test;
  Case c;
  Grid devices;
  std::vector<int> device_of;  // By rank: in the order of tasks.
};

Placed AsItSays(const ImplementationUnderTest& under_test, const Case& c) {
  Placed placed = {.under_test = &under_test, .c = c, .devices = c.grid};
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    placed.device_of.push_back(DeviceIndex(c, rank));
  }
  return placed;
}

// The last ranks have a task each, the first one has all others.
Placed Unevenly(const ImplementationUnderTest& under_test, const Case& c,
                int tasks) {
  const int size = c.grid.size();
  Placed placed = {.under_test = &under_test, .c = c, .devices = {tasks, size}};
  for (int rank = 0; rank < size; ++rank) {
    const int task = std::max(0, rank - (size - tasks));
    placed.device_of.push_back(task == 0 ? rank : task * size);
  }
  return placed;
}

std::string ToString(const Placed& placed) {
  return absl::StrCat(ToString(placed.c), ", on devices ",
                      absl::StrJoin(placed.device_of, ","), " of ",
                      ToString(placed.devices));
}

// Runs one execution and returns the outputs in rank order.
std::vector<Tensor> Outputs(const Placed& placed,
                            const std::vector<Tensor>& inputs,
                            WorkDriver& driver) {
  const Case& c = placed.c;
  const int size = c.grid.size();
  TestGroup group(placed.devices, &driver, Transfers::kDeferred);
  const auto requests = RequestsOf(c, placed.under_test->name, /*key=*/1);
  std::vector<Tensor> outputs(size);
  std::vector<std::optional<absl::Status>> statuses(size);
  for (int rank = 0; rank < size; ++rank) {
    CollectiveArgs args{.device = group.device(placed.device_of[rank]),
                        .request = requests[rank],
                        .input = inputs[rank]};
    if (HasOutput(c.type, rank, c.root)) args.output = &outputs[rank];
    driver.environment().queue->Schedule(
        [&, rank, args = std::move(args)]() mutable {
          group.step(1)->ExecuteAsync(std::move(args),
                                      [&statuses, rank](absl::Status status) {
                                        statuses[rank] = std::move(status);
                                      });
        });
  }
  driver.RunAll();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(statuses[rank].has_value()) << "rank " << rank << " hangs";
    if (statuses[rank].has_value()) {
      EXPECT_THAT(*statuses[rank], IsOk()) << "rank " << rank;
    }
  }
  return outputs;
}

// Text, empty if all bits are the same.
std::string Difference(const std::vector<Tensor>& a,
                       const std::vector<Tensor>& b) {
  for (size_t rank = 0; rank < a.size(); ++rank) {
    if (a[rank].size_bytes() != b[rank].size_bytes()) {
      return absl::StrCat("rank ", rank, " has outputs of different sizes");
    }
    const std::byte* const begin = a[rank].data();
    const std::byte* const end = begin + a[rank].size_bytes();
    const auto [at, other] = std::mismatch(begin, end, b[rank].data());
    if (at == end) continue;
    return absl::StrCat("output of rank ", rank, " differs at byte ",
                        at - begin);
  }
  return "";
}

// The case on layouts of its group on which the bits are to be the same.
std::vector<Placed> SameBitsOn(const ImplementationUnderTest& under_test,
                               Case c) {
  if (under_test.traits().determinism != Determinism::kByRankOrder) {
    return {AsItSays(under_test, c)};
  }
  const int size = c.grid.size();
  std::vector<Placed> placed;
  for (int tasks = 1; tasks <= size; ++tasks) {
    if (size % tasks != 0) continue;
    c.grid = {tasks, size / tasks};
    placed.push_back(AsItSays(under_test, c));
    if (tasks == 1 || tasks == size) continue;
    placed.push_back(Unevenly(under_test, c, tasks));
    c.deals_ranks = true;
    placed.push_back(AsItSays(under_test, c));
    c.deals_ranks = false;
  }
  return placed;
}

Repetitions RepetitionsOf(const Claim& claim) {
  const bool is_deep = claim.under_test->tier == Tier::kDeep;
  return is_deep || claim.length == kLengths[0] ? kMany : kFew;
}

void ExpectSameBits(const Claim& claim, const Case& first) {
  const ImplementationUnderTest& under_test = *claim.under_test;
  const Repetitions repetitions = RepetitionsOf(claim);
  const std::vector<Tensor> inputs = MakeInputTensors(first);
  SeededDriver first_driver(/*seed=*/0);
  const std::vector<Tensor> outputs =
      Outputs(AsItSays(under_test, first), inputs, first_driver);
  const auto compare = [&](const Placed& placed, WorkDriver& driver) {
    ASSERT_EQ(Difference(outputs, Outputs(placed, inputs, driver)), "")
        << "between " << ToString(first) << ", " << first_driver.ToString()
        << ", and " << ToString(placed) << ", " << driver.ToString()
        << ", with determinism " << Name(under_test.traits().determinism);
  };
  for (const Placed& placed : SameBitsOn(under_test, first)) {
    for (uint64_t seed = 1; seed <= repetitions.seeds; ++seed) {
      SeededDriver driver(seed);
      compare(placed, driver);
      if (testing::Test::HasFailure()) return;
    }
    for (const int num_threads : kNumbersOfThreads) {
      for (int run = 0; run < repetitions.on_threads; ++run) {
        const auto driver = OnThreads(num_threads);
        compare(placed, *driver);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

class DeterminismTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeterminismTest);

TEST_P(DeterminismTest, TheBitsAreTheSameWheneverTheClassPromisesIt) {
  const auto& [under_test, type, grid, length] = GetParam();
  Case c{.type = type, .grid = grid, .length = length};
  c.root = HasRoot(type) ? grid.size() - 1 : 0;
  if (HasBlocks(type)) c.length = length / grid.size();
  if (type == CollectiveType::kPermute) {
    c.permutation.resize(grid.size());
    std::iota(c.permutation.rbegin(), c.permutation.rend(), 0);
  }
  for (const DType dtype : {DType::kFloat64, DType::kBFloat16}) {
    c.dtype = dtype;
    ExpectSameBits(GetParam(), c);
  }
}

void AppendClaims(const ImplementationUnderTest& under_test,
                  std::vector<Claim>* claims) {
  const ImplementationTraits& traits = under_test.traits();
  if (traits.determinism == Determinism::kNotGuaranteed) return;
  for (const CollectiveType type : traits.collectives) {
    if (type == CollectiveType::kBarrier) continue;
    claims->push_back({&under_test, type, {2, 3}, kLengths[0]});
    if (under_test.tier == Tier::kQuick) continue;
    claims->push_back({&under_test, type, {4, 2}, kLengths[1]});
    if (under_test.tier == Tier::kDefault) continue;
    claims->push_back({&under_test, type, {2, 4}, kLengths[0]});
  }
}

std::vector<Claim> Claims() {
  std::vector<Claim> claims;
  for (const ImplementationUnderTest& under_test : UnderTest()) {
    if (under_test.is_run) AppendClaims(under_test, &claims);
  }
  return claims;
}

INSTANTIATE_TEST_SUITE_P(All, DeterminismTest, testing::ValuesIn(Claims()),
                         NameWithLength);

}  // namespace
}  // namespace tutti::conformance
