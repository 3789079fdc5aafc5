#include "tests/cluster/named_tensor_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "named_tensors/tensor_request.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

using ::testing::Each;

Tensor Zeros(DType dtype, const std::vector<int64_t>& dims) {
  return Filled(dtype, *TensorShape::Create(dims), 0);
}

// --- Mismatches --------------------------------------------------------------

struct Mismatch {
  // Requests the name as the other ranks do, or differently.
  NamedCallPtr (*submit)(Coordinator& at, const std::string& name,
                         bool differs);

  // Error text on all ranks. $0 stands for rank 0's value and $1 for the
  // others'; the values are `alike` and `different`. Without them, the text
  // names only the ranks that differ.
  std::string text;
  std::string alike, different;
};

std::vector<Mismatch> Mismatches() {
  constexpr DType kFloat = DType::kFloat32;
  return {
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallAllReduce(at, name,
                              Zeros(differs ? DType::kInt32 : kFloat, {2}));
       },
       "mismatched data types: one rank had type $0, but another rank had type "
       "$1",
       "float32", "int32"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return differs ? CallAllGather(at, name, Zeros(kFloat, {2}))
                        : CallAllReduce(at, name, Zeros(kFloat, {2}));
       },
       "mismatched operations: one rank did an $0, but another rank did an $1",
       "allreduce", "allgather"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallNamed(
             at, differs ? &Coordinator::Broadcast : &Coordinator::AllToAll,
             {.name = name, .input = Zeros(kFloat, {0})});
       },
       "mismatched operations: one rank did $0, but another rank did $1",
       "an alltoall", "a broadcast"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallNamed(
             at, &Coordinator::ReduceScatter,
             {.name = name,
              .input = Zeros(kFloat, {2}),
              .final_op = differs ? FinalOp::DivideByGroupSize() : FinalOp()});
       },
       "mismatched reductions: one rank asked for $0, but another rank asked "
       "for $1",
       "sum", "sum, divide_by_group_size"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallNamed(
             at, &Coordinator::ReduceScatter,
             {.name = name, .input = Zeros(kFloat, {2, differs ? 2 : 3})});
       },
       "mismatched reducescatter tensor shapes: one rank sent a tensor of "
       "shape $0, but another rank sent a tensor of shape $1",
       "[2,3]", "[2,2]"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallNamed(
             at, &Coordinator::ReduceScatter,
             {.name = name,
              .input = differs ? Zeros(kFloat, {}) : Zeros(kFloat, {2})});
       },
       "scattering a scalar: a tensor that is scattered has at least one "
       "dimension",
       "", ""},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallNamed(
             at, &Coordinator::Broadcast,
             {.name = name, .input = Zeros(kFloat, {differs ? 3 : 2})});
       },
       "mismatched broadcast tensor shapes: one rank sent a tensor of shape "
       "$0, but another rank sent a tensor of shape $1",
       "[2]", "[3]"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallNamed(
             at, &Coordinator::AllToAll,
             {.name = name, .input = Zeros(kFloat, {0, differs ? 3 : 2})});
       },
       "mismatched alltoall tensor shapes: one rank sent a tensor with "
       "dimension 1 equal to $0, but another rank sent a tensor with dimension "
       "1 equal to $1",
       "2", "3"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallAllReduce(at, name, Zeros(kFloat, {2, differs ? 2 : 3}));
       },
       "mismatched allreduce tensor shapes: one rank sent a tensor of shape "
       "$0, but another rank sent a tensor of shape $1",
       "[2,3]", "[2,2]"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallAllReduce(
             at, name, Zeros(kFloat, {2}),
             differs ? ReductionKind::kMax : ReductionKind::kSum);
       },
       "mismatched reductions: one rank asked for $0, but another rank asked "
       "for $1",
       "sum", "max"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallAllGather(at, name,
                              differs ? Zeros(kFloat, {}) : Zeros(kFloat, {2}));
       },
       "gathering a scalar: a tensor that is gathered has at least one "
       "dimension",
       "", ""},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallAllGather(
             at, name, differs ? Zeros(kFloat, {2, 1}) : Zeros(kFloat, {2}));
       },
       "mismatched allgather dimension counts: one rank sent a tensor with $0 "
       "dimensions, but another rank sent a tensor with $1 dimensions",
       "1", "2"},
      {[](Coordinator& at, const std::string& name, bool differs) {
         return CallAllGather(
             at, name, Zeros(kFloat, {differs ? 3 : 1, 4, differs ? 5 : 6}));
       },
       "mismatched allgather tensor shapes: one rank sent a tensor with "
       "dimension 2 equal to $0, but another rank sent a tensor with dimension "
       "2 equal to $1",
       "6", "5"},
  };
}

// Status on all ranks if rank `differing` differs. A single rank cannot differ.
absl::Status WantedStatus(const Mismatch& mismatch, const std::string& name,
                          int num_ranks, int differing) {
  const std::string head =
      absl::StrCat("tensor ", Quoted(name), ": ", mismatch.text, ": ranks ");
  if (mismatch.alike.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(head, RanksText({differing})));
  }
  if (num_ranks == 1) return absl::OkStatus();
  std::vector<int> others;
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (rank != differing) others.push_back(rank);
  }
  return absl::FailedPreconditionError(
      differing == 0
          ? absl::StrCat(
                absl::Substitute(head, mismatch.different, mismatch.alike),
                RanksText({differing}), " / ", RanksText(others))
          : absl::StrCat(
                absl::Substitute(head, mismatch.alike, mismatch.different),
                RanksText(others), " / ", RanksText({differing})));
}

// Sum on all ranks if each brings its number plus one.
float SumOfRanks(int num_ranks) {
  const int sum = num_ranks * (num_ranks + 1) / 2;
  return static_cast<float>(sum);
}

NamedCallPtr CallWithRank(Coordinator& at, int rank, const std::string& name) {
  return CallAllReduce(at, name,
                       Filled(DType::kFloat32, TensorShape::Vector(3),
                              static_cast<float>(rank + 1)));
}

void ExpectSums(const std::vector<NamedCallPtr>& calls, int num_ranks) {
  for (const NamedCallPtr& call : calls) {
    EXPECT_THAT(call->status, IsOk());
    EXPECT_THAT(call->Values(), Each(SumOfRanks(num_ranks)));
  }
}

void ExpectAllMeet(const RanksHere& ranks, const std::string& name,
                   Settle settle) {
  std::vector<NamedCallPtr> calls;
  for (const auto& [rank, at] : ranks.coordinators) {
    calls.push_back(CallWithRank(*at, rank, name));
  }
  ASSERT_TRUE(settle(calls)) << name;
  ExpectSums(calls, ranks.num_ranks);
}

void ExpectAllHear(const RanksHere& ranks, const Mismatch& mismatch,
                   int differing, Settle settle) {
  std::vector<NamedCallPtr> calls;
  for (const auto& [rank, at] : ranks.coordinators) {
    calls.push_back(mismatch.submit(*at, "x", rank == differing));
  }
  const absl::Status wanted =
      WantedStatus(mismatch, "x", ranks.num_ranks, differing);
  ASSERT_TRUE(settle(calls)) << wanted;
  for (const NamedCallPtr& call : calls) EXPECT_EQ(call->status, wanted);
}

// --- Many names --------------------------------------------------------------

constexpr int kNumThreads = 3;  // Per rank.
constexpr int kNumNames = 1000;

// Every tenth name is gathered; some ranks bring no rows.
bool IsGathered(int name) { return name % 10 == 9; }

Tensor InputOf(int rank, int name) {
  return Filled(DType::kFloat32,
                TensorShape::Vector(IsGathered(name) ? (rank + name / 10) % 3
                                                     : name % 10 + 1),
                static_cast<float>((rank + 1) * name));
}

std::vector<float> WantedValues(int num_ranks, int name) {
  if (!IsGathered(name)) {
    return std::vector<float>(name % 10 + 1,
                              SumOfRanks(num_ranks) * static_cast<float>(name));
  }
  std::vector<float> values;
  for (int rank = 0; rank < num_ranks; ++rank) {
    values.insert(values.end(), InputOf(rank, name).num_elements(),
                  static_cast<float>((rank + 1) * name));
  }
  return values;
}

// Requests of the ranks for all names.
class ManyCalls {
 public:
  explicit ManyCalls(const RanksHere& ranks)
      : ranks_(ranks),
        left_(static_cast<int>(ranks.coordinators.size()) * kNumNames) {
    for (const auto& [rank, at] : ranks.coordinators) {
      calls_[rank].resize(kNumNames);
    }
  }

  // Requests all names on threads of each rank, and waits until all are
  // answered. Each thread calls `requested` after each request.
  void RequestAndWait(absl::FunctionRef<void(int rank, int name)> requested) {
    std::vector<std::thread> threads;
    for (const auto& [rank, at] : ranks_.coordinators) {
      for (int thread = 0; thread < kNumThreads; ++thread) {
        threads.emplace_back([this, requested, rank = rank, thread] {
          for (const int name : NamesOf(rank, thread)) {
            Request(rank, name);
            requested(rank, name);
          }
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
    left_.Wait();
  }

  const std::map<int, std::vector<NamedCall>>& by_rank() const {
    return calls_;
  }

 private:
  // Names of the thread, in a random order.
  static std::vector<int> NamesOf(int rank, int thread) {
    std::vector<int> names;
    for (int i = thread; i < kNumNames; i += kNumThreads) names.push_back(i);
    std::mt19937_64 generator(rank * kNumThreads + thread + 1);
    std::shuffle(names.begin(), names.end(), generator);
    return names;
  }

  void Request(int rank, int name) {
    NamedCall& call = calls_.at(rank)[static_cast<size_t>(name)];
    NamedTensor tensor{.name = absl::StrCat("tensor ", name),
                       .input = InputOf(rank, name),
                       .output = &call.output};
    StatusCallback done = [this, &call](absl::Status status) {
      call.Set()(std::move(status));
      left_.DecrementCount();
    };
    Coordinator& at = *ranks_.coordinators.at(rank);
    if (IsGathered(name))
      return at.AllGather(std::move(tensor), std::move(done));
    at.AllReduce(std::move(tensor), std::move(done));
  }

  const RanksHere ranks_;
  std::map<int, std::vector<NamedCall>> calls_;
  BlockingCounter left_;
};

}  // namespace

void ExpectNamesAreAnyBytes(const RanksHere& ranks, Settle settle) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  const std::vector<std::string> names = {std::string("a\0b", 3),
                                          std::string("a\0c", 3),
                                          "\xff\xfe",
                                          std::string(kMostBytes, 'x'),
                                          std::string(kMostBytes - 1, 'x'),
                                          std::string(40000, '\0')};
  std::vector<NamedCallPtr> calls;
  std::vector<float> wanted;
  for (const auto& [rank, at] : ranks.coordinators) {
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t name = (i + static_cast<size_t>(rank)) % names.size();
      const float factor = static_cast<float>(name + 1);
      calls.push_back(
          CallAllReduce(*at, names[name],
                        Filled(DType::kFloat32, TensorShape::Vector(3),
                               static_cast<float>(rank + 1) * factor)));
      wanted.push_back(SumOfRanks(ranks.num_ranks) * factor);
    }
  }
  ASSERT_TRUE(settle(calls));
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_THAT(calls[i]->status, IsOk());
    EXPECT_THAT(calls[i]->Values(), Each(wanted[i]));
  }
  for (const auto& [rank, at] : ranks.coordinators) {
    for (const std::string& name :
         {std::string(), std::string(kMostBytes + 1, 'x')}) {
      EXPECT_THAT(CallWithRank(*at, rank, name)->status,
                  IsInvalidArgument("has 1 to 65536 bytes"));
    }
  }
}

void ExpectAllHearWhatDiffers(const RanksHere& ranks, Settle settle) {
  for (const Mismatch& mismatch : Mismatches()) {
    for (int rank = 0; rank < ranks.num_ranks; ++rank) {
      ExpectAllHear(ranks, mismatch, rank, settle);
      ExpectAllMeet(ranks, "x", settle);
    }
  }
}

void ExpectASecondRequestIsRefused(const RanksHere& ranks, Settle settle) {
  const int requester = ranks.num_ranks - 1;
  const auto requests = ranks.coordinators.find(requester);
  std::vector<NamedCallPtr> calls;
  const auto request_again = [&] {
    if (requests == ranks.coordinators.end()) return;
    EXPECT_THAT(CallWithRank(*requests->second, requester, "x")->status,
                IsAlreadyExists(absl::StrCat("tensor \"x\": rank ", requester,
                                             " has asked for it")));
  };
  if (requests != ranks.coordinators.end()) {
    calls.push_back(CallWithRank(*requests->second, requester, "x"));
  }
  request_again();
  ExpectAllMeet(ranks, "y", settle);
  request_again();
  for (const NamedCallPtr& call : calls) EXPECT_FALSE(call->answered());
  ExpectAllMeet(ranks, "z", settle);
  for (const auto& [rank, at] : ranks.coordinators) {
    if (rank != requester) calls.push_back(CallWithRank(*at, rank, "x"));
  }
  ASSERT_TRUE(settle(calls));
  ExpectSums(calls, ranks.num_ranks);
}

void ExpectAllThreadsMeet(const RanksHere& ranks) {
  for (int round = 0; round < 2; ++round) {
    ManyCalls calls(ranks);
    calls.RequestAndWait([](int, int) {});
    for (const auto& [rank, of_rank] : calls.by_rank()) {
      for (int name = 0; name < kNumNames; ++name) {
        const NamedCall& call = of_rank[static_cast<size_t>(name)];
        ASSERT_THAT(call.status, IsOk());
        ASSERT_EQ(call.num_answers, 1);
        ASSERT_EQ(call.Values(), WantedValues(ranks.num_ranks, name))
            << "rank " << rank << ", tensor " << name;
      }
    }
  }
}

std::map<int, std::vector<float>> ExpectAShutdownLeavesNoThreadWaiting(
    const RanksHere& ranks, int by) {
  ManyCalls calls(ranks);
  BlockingCounter down(ranks.coordinators.contains(by) ? 1 : 0);
  calls.RequestAndWait([&](int rank, int name) {
    if (rank != by || name != kNumNames / 2) return;
    ranks.coordinators.at(rank)->Shutdown([&](const absl::Status& status) {
      EXPECT_THAT(status, IsOk());
      down.DecrementCount();
    });
  });
  down.Wait();
  std::map<int, std::vector<float>> ran;
  for (const auto& [rank, of_rank] : calls.by_rank()) {
    for (const NamedCall& call : of_rank) {
      EXPECT_EQ(call.num_answers, 1);
      EXPECT_TRUE(call.status.ok() || absl::IsCancelled(call.status))
          << call.status;
      ran[rank].push_back(call.status.ok() ? 1 : 0);
    }
  }
  return ran;
}

void ExpectChainsEnd(const RanksHere& ranks) {
  constexpr int kNumChains = 20;
  constexpr int kNumStages = 13;
  struct Chain {
    Tensor tensor;
    int stage = 0;
  };
  std::map<int, std::vector<Chain>> chains;
  BlockingCounter left(static_cast<int>(ranks.coordinators.size()) *
                       kNumChains);
  const std::function<void(int, int)> next = [&](int rank, int chain) {
    Chain& at = chains.at(rank)[static_cast<size_t>(chain)];
    if (at.stage++ == kNumStages) return left.DecrementCount();
    ranks.coordinators.at(rank)->AllReduce(
        {.name = absl::StrCat("chain ", chain),
         .input = at.tensor,
         .output = &at.tensor},
        [&next, rank, chain](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          next(rank, chain);
        });
  };
  for (const auto& [rank, at] : ranks.coordinators) {
    chains[rank].resize(kNumChains);
  }
  for (const auto& [rank, at] : ranks.coordinators) {
    for (int i = 0; i < kNumChains; ++i) {
      const int chain = (i * 7 + rank * 5) % kNumChains;
      chains[rank][static_cast<size_t>(chain)].tensor =
          Filled(DType::kFloat32, TensorShape::Vector(5), 1);
      next(rank, chain);
    }
  }
  left.Wait();
  float wanted = 1;
  for (int i = 0; i < kNumStages; ++i) {
    wanted *= static_cast<float>(ranks.num_ranks);
  }
  for (const auto& [rank, of_rank] : chains) {
    for (const Chain& chain : of_rank) {
      const auto* values = reinterpret_cast<const float*>(chain.tensor.data());
      EXPECT_THAT(std::vector<float>(values, values + 5), Each(wanted));
    }
  }
}

}  // namespace tutti
