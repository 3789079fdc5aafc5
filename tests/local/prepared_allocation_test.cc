// Small collectives that are prepared, or called again, allocate nothing.
// Neither do schedules of any size.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/executor.h"

namespace {

// Allocations of the test's only thread.
int64_t num_allocations = 0;

void* Allocate(size_t size) {
  ++num_allocations;
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  ++num_allocations;
  const auto unit = static_cast<size_t>(alignment);
  void* const memory =
      std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tutti {
namespace {

// An all-reduce of floats among `num_devices`, or another collective.
struct Case {
  int num_devices = 0;
  CollectiveOp op = AllReduce{};
  int64_t num_elements = 256;
  std::string implementation;
  int num_tasks = 1;

  std::string Name() const {
    return absl::StrCat(implementation, implementation.empty() ? "" : "_",
                        tutti::Name(TypeOf(op)), "_", num_devices, "_",
                        num_elements);
  }

  // A permutation with a cycle of all devices but the first.
  static Case Permuted(int num_devices) {
    Permute permute{.permutation = {0}};
    for (int rank = 2; rank < num_devices; ++rank) {
      permute.permutation.push_back(rank);
    }
    permute.permutation.push_back(1);
    return {num_devices, std::move(permute)};
  }
};

class PreparedAllocationTest : public testing::TestWithParam<Case> {
 protected:
  // Upper limit of allocations in all starts of a schedule that a test counts.
  // The 16 tables in which transfers meet still grow once or twice, by chance:
  // removed entries take up space too.
  static constexpr int kMostGrowths = 32;

  PreparedAllocationTest() {
    outputs_.resize(job_.devices().size());
    for (size_t i = 0; i < job_.devices().size(); ++i) {
      CollectiveRequest requested = job_.AllReduceRequest(
          GetParam().num_elements, GetParam().implementation);
      requested.op = GetParam().op;
      if (auto* const broadcast = std::get_if<Broadcast>(&requested.op)) {
        broadcast->is_source = i == 0;
      }
      const auto request =
          std::make_shared<const CollectiveRequest>(std::move(requested));
      const CollectiveArgs args{
          .device = job_.devices()[i],
          .request = request,
          .input = *Tensor::Allocate(DType::kFloat32, request->shape),
          .output = &outputs_[i]};
      args_.push_back(args);
      job_.executor().Prepare(args, [this](auto prepared) {
        ASSERT_THAT(prepared, IsOk());
        prepared_.push_back(*std::move(prepared));
      });
    }
  }

  // Limit for a thousand starts.
  static int64_t MostAllocations() {
    return GetParam().implementation.empty() ? 0 : kMostGrowths;
  }

  // Runs `run` until the tables have grown, and then `times` more.
  void ExpectFewAllocations(int times, int64_t most,
                            absl::FunctionRef<void()> run) {
    for (int i = 0; i < 20; ++i) run();
    const int64_t before = num_allocations;
    for (int i = 0; i < times; ++i) run();
    EXPECT_LE(num_allocations - before, most);
    EXPECT_EQ(num_ok_, (20 + times) * GetParam().num_devices);
  }

  void StartAll() {
    for (const auto& prepared : prepared_) {
      prepared->Start([this](const absl::Status& status) {
        if (status.ok()) ++num_ok_;
      });
    }
  }

  void CallAll() {
    for (const CollectiveArgs& args : args_) {
      job_.executor().ExecuteAsync(args, [this](const absl::Status& status) {
        if (status.ok()) ++num_ok_;
      });
    }
  }

  LocalJob job_{
      {.num_tasks = GetParam().num_tasks,
       .devices_per_task = GetParam().num_devices / GetParam().num_tasks}};
  std::vector<Tensor> outputs_;
  std::vector<CollectiveArgs> args_;
  std::vector<std::shared_ptr<PreparedCollective>> prepared_;
  int num_ok_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Collectives, PreparedAllocationTest,
    testing::Values(Case{1}, Case{2}, Case{8}, Case{16}, Case{8, AllGather{}},
                    Case{16, AllGather{}}, Case{16, ReduceScatter{}},
                    Case{16, Broadcast{}}, Case{8, AllToAll{}},
                    Case::Permuted(16), Case{16, Barrier{}},
                    Case{16, ReduceToRoot{}}, Case{16, ScatterFromRoot{}},
                    Case{16, Scan{}}, Case{16, Exscan{}}),
    [](const auto& info) { return info.param.Name(); });

INSTANTIATE_TEST_SUITE_P(
    Schedules, PreparedAllocationTest,
    testing::Values(Case{1, AllReduce{}, 256, "RingReduce"},
                    Case{4, AllReduce{}, 256, "RingReduce"},
                    Case{16, AllReduce{}, 3, "RingReduce"},  // Empty chunks.
                    Case{32, AllReduce{}, 1024, "RingReduce"},
                    Case{8, AllReduce{}, 1, "RecursiveDoublingReduce"},
                    Case{8, AllReduce{}, 32 << 10, "RecursiveDoublingReduce"},
                    Case{8, AllReduce{}, 256, "RecursiveHalvingDoublingReduce"},
                    Case{8, AllReduce{}, 256, "TreeReduce"},
                    Case{8, AllReduce{}, 256, "DoubleTreeReduce"},
                    Case{16, AllReduce{}, 256, "ShuffleReduce"},
                    Case{8, AllGather{}, 256, "BruckGather"},
                    Case{16, ReduceScatter{}, 256, "DirectReduceScatter"},
                    Case{8, Broadcast{}, 256, "HierarchicalTreeBroadcast"},
                    Case{8, AllToAll{}, 256, "PairwiseAllToAll"},
                    Case{8, Barrier{}, 256, "Barrier"}),
    [](const auto& info) { return info.param.Name(); });

TEST_P(PreparedAllocationTest, StartsAllocateNothing) {
  ExpectFewAllocations(1000, MostAllocations(), [this] { StartAll(); });
}

TEST_P(PreparedAllocationTest, CallsOfTheSameRequestAllocateNothing) {
  ExpectFewAllocations(1000, MostAllocations(), [this] { CallAll(); });
}

TEST_P(PreparedAllocationTest, StartsFromDoneAllocateNothing) {
  struct Chain {
    int* num_ok = nullptr;
    PreparedCollective* prepared = nullptr;
    int num_left = 0;

    void Start() {
      prepared->Start([this](const absl::Status& status) {
        if (status.ok()) ++*num_ok;
        if (--num_left > 0) Start();
      });
    }
  };
  std::vector<Chain> chains;
  for (const auto& prepared : prepared_)
    chains.push_back({&num_ok_, prepared.get()});
  const auto run = [&](int times) {
    const int64_t before = num_allocations;
    for (Chain& chain : chains) {
      chain.num_left = times;
      chain.Start();
    }
    return num_allocations - before;
  };
  run(20);
  EXPECT_LE(run(1000), MostAllocations());
  EXPECT_EQ(num_ok_, 1020 * GetParam().num_devices);
}

// Collectives that send messages or are cut into slices.
class PreparedRunTest : public PreparedAllocationTest {};

INSTANTIATE_TEST_SUITE_P(
    Collectives, PreparedRunTest,
    testing::Values(Case{4, AllReduce{}, 1 << 20, "RingReduce"},
                    Case{8, AllReduce{}, 128 << 10, "RecursiveDoublingReduce"},
                    Case{8, AllReduce{}, 1 << 20, "ShuffleReduce"},
                    Case{4, AllGather{}, 128 << 10, "RingGather"},
                    Case{2, AllReduce{}, 4 << 20, "LocalReduce"},
                    Case{8, AllReduce{}, 1, "LocalThenRing", 4},
                    Case{4, AllReduce{}, 1 << 20, "LocalThenRing", 2},
                    Case{6, AllReduce{}, 1 << 10, "LocalThenDoubleTree", 3}),
    [](const auto& info) { return info.param.Name(); });

TEST_P(PreparedRunTest, StartsAllocateNothing) {
  ExpectFewAllocations(/*times=*/100, kMostGrowths, [this] {
    StartAll();
    job_.environment().RunAll();
  });
}

}  // namespace
}  // namespace tutti
