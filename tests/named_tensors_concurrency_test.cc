// Many threads of each rank ask for tensors by name at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/blocking_counter.h"
#include "tests/named_tensor_job.h"
#include "tests/status_matchers.h"
#include "tests/stoppable_environment.h"

namespace tutti {
namespace {

using ::testing::Each;

constexpr int kNumRanks = 3;
constexpr int kNumThreads = 3;  // Of each rank.
constexpr int kNumNames = 1000;

class NamedTensorsConcurrencyTest : public testing::Test {
 protected:
  NamedTensorsConcurrencyTest() {
    BlockingCounter joined(kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      job_.runtime(rank).Join(environment_.Now() + absl::Seconds(60), nullptr,
                              [&joined](const absl::Status& status) {
                                EXPECT_THAT(status, IsOk());
                                joined.DecrementCount();
                              });
    }
    joined.Wait();
  }
  ~NamedTensorsConcurrencyTest() override { environment_.Stop(); }

  static Tensor InputOf(int rank, int name) {
    return Filled(DType::kFloat32, TensorShape::Vector(name % 10 + 1),
                  static_cast<float>((rank + 1) * name));
  }

  void Ask(int rank, int name, NamedCall& call, BlockingCounter& left) {
    job_.at(rank).AllReduce({.name = absl::StrCat("tensor ", name),
                             .input = InputOf(rank, name),
                             .output = &call.output},
                            [&call, &left](absl::Status status) {
                              call.Set()(std::move(status));
                              left.DecrementCount();
                            });
  }

  // Every thread asks for its share of the names, in an order of its own.
  template <typename Ask>
  static void OnAllThreads(Ask ask) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      for (int thread = 0; thread < kNumThreads; ++thread) {
        threads.emplace_back([&ask, rank, thread] {
          std::vector<int> names;
          for (int i = thread; i < kNumNames; i += kNumThreads) {
            names.push_back(i);
          }
          std::mt19937_64 generator(rank * kNumThreads + thread + 1);
          std::shuffle(names.begin(), names.end(), generator);
          for (const int name : names) ask(rank, name);
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
  }

  StoppableEnvironment environment_;
  NamedTensorJob job_{kNumRanks, environment_.get(), {}};
};

TEST_F(NamedTensorsConcurrencyTest, AllThreadsOfAllRanksMeet) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<NamedCall>> calls(kNumRanks);
    for (auto& of_rank : calls) of_rank.resize(kNumNames);
    BlockingCounter left(kNumRanks * kNumNames);
    OnAllThreads(
        [&](int rank, int name) { Ask(rank, name, calls[rank][name], left); });
    left.Wait();
    for (const auto& of_rank : calls) {
      for (int name = 0; name < kNumNames; ++name) {
        ASSERT_THAT(of_rank[name].status, IsOk());
        ASSERT_EQ(of_rank[name].num_answers, 1);
        ASSERT_THAT(of_rank[name].Values(),
                    Each(6.0f * static_cast<float>(name)));
      }
    }
  }
}

TEST_F(NamedTensorsConcurrencyTest, AShutdownAmongThreadsLeavesNobodyWaiting) {
  std::vector<std::vector<NamedCall>> calls(kNumRanks);
  for (auto& of_rank : calls) of_rank.resize(kNumNames);
  BlockingCounter left(kNumRanks * kNumNames + 1);
  OnAllThreads([&](int rank, int name) {
    Ask(rank, name, calls[rank][name], left);
    if (rank == 1 && name == kNumNames / 2) {
      job_.at(rank).Shutdown(
          [&left](const absl::Status&) { left.DecrementCount(); });
    }
  });
  left.Wait();
  for (const auto& of_rank : calls) {
    for (const NamedCall& call : of_rank) {
      EXPECT_EQ(call.num_answers, 1);
      EXPECT_TRUE(call.status.ok() || absl::IsCancelled(call.status))
          << call.status;
    }
  }
}

// What a callback asks for goes on: thirteen stages, each by the one before.
TEST_F(NamedTensorsConcurrencyTest, ChainsOfRequestsNeedNoStack) {
  constexpr int kNumChains = 20;
  constexpr int kNumStages = 13;
  BlockingCounter left(kNumRanks * kNumChains);
  struct Chain {
    Tensor tensor;
    int stage = 0;
  };
  std::vector<std::vector<Chain>> chains(kNumRanks,
                                         std::vector<Chain>(kNumChains));
  std::function<void(int, int)> next = [&](int rank, int chain) {
    Chain& at = chains[rank][chain];
    if (at.stage++ == kNumStages) return left.DecrementCount();
    job_.at(rank).AllReduce({.name = absl::StrCat("chain ", chain),
                             .input = at.tensor,
                             .output = &at.tensor},
                            [&next, rank, chain](const absl::Status& status) {
                              EXPECT_THAT(status, IsOk());
                              next(rank, chain);
                            });
  };
  for (int rank = 0; rank < kNumRanks; ++rank) {
    for (int i = 0; i < kNumChains; ++i) {
      const int chain = (i * 7 + rank * 5) % kNumChains;
      chains[rank][chain].tensor =
          Filled(DType::kFloat32, TensorShape::Vector(5), 1);
      next(rank, chain);
    }
  }
  left.Wait();
  for (const auto& of_rank : chains) {
    for (const Chain& chain : of_rank) {
      EXPECT_EQ(reinterpret_cast<const float*>(chain.tensor.data())[0],
                1594323.0f);  // 3 to the power of 13.
    }
  }
}

}  // namespace
}  // namespace tutti
