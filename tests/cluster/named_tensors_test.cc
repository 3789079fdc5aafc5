#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/cluster/named_call.h"
#include "tests/cluster/named_tensor_cases.h"
#include "tests/cluster/named_tensor_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tests/doubles/stoppable_environment.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace named_tensors_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Collectives on named tensors among the tasks of a cluster. The seed
// determines the order of messages.

constexpr int kNumRanks = 3;

struct Case {
  uint64_t seed = 1;
  bool runs_in_order = false;
};

class LeanDevice : public CpuDevice {
 public:
  // Null `has_memory`: always has memory.
  LeanDevice(DeviceAttributes attributes, const bool* has_host_memory,
             const bool* has_memory)
      : CpuDevice(std::move(attributes)),
        has_host_memory_(has_host_memory),
        has_memory_(has_memory) {}

  bool has_host_memory() const override { return *has_host_memory_; }

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    if (has_memory_ == nullptr || *has_memory_) {
      return CpuDevice::Allocate(dtype, shape);
    }
    return absl::ResourceExhaustedError("none left");
  }

 private:
  const bool* const has_host_memory_;
  const bool* const has_memory_;
};

// Joins of the ranks. May be destroyed before they end.
class Joins {
 public:
  explicit Joins(int num_ranks)
      : results_(std::make_shared<Results>(num_ranks, NotJoined())) {}

  void Join(Coordinator& at, int rank) {
    at.Join([results = results_, rank](absl::StatusOr<int> last) {
      EXPECT_EQ(results->at(rank), NotJoined());
      results->at(rank) = std::move(last);
    });
  }

  int num_ended() const {
    return static_cast<int>(results_->size() - std::count(results_->begin(),
                                                          results_->end(),
                                                          NotJoined()));
  }
  const absl::StatusOr<int>& result(int rank) const {
    return results_->at(rank);
  }
  void ExpectLast(int last) const {
    EXPECT_THAT(*results_, Each(absl::StatusOr<int>(last)));
  }

 private:
  using Results = std::vector<absl::StatusOr<int>>;

  static absl::StatusOr<int> NotJoined() {
    return absl::UnknownError("not joined");
  }

  std::shared_ptr<Results> results_;
};

RanksHere RanksOf(NamedTensorJob& job) {
  RanksHere ranks{.num_ranks = job.num_ranks()};
  for (int rank = 0; rank < ranks.num_ranks; ++rank) {
    ranks.coordinators[rank] = &job.at(rank);
  }
  return ranks;
}

class NamedTensorsTest : public testing::TestWithParam<Case> {
 protected:
  void Begin(CoordinatorSettings settings = {}, int num_ranks = kNumRanks) {
    Begin(std::move(settings), {.num_ranks = num_ranks});
  }

  struct Job {
    int num_ranks = kNumRanks;
    const bool* has_memory = nullptr;  // Of rank 1; null: always.
    size_t max_entries = size_t{1} << 19;
  };
  void Begin(CoordinatorSettings settings, const Job& job) {
    End();
    // Coordinators read this when they are made; without host memory nothing
    // could run.
    has_host_memory_ = !GetParam().runs_in_order;
    job_ = std::make_unique<NamedTensorJob>(
        job.num_ranks, environment_.get(), std::move(settings),
        /*part_elements=*/100,
        [this, &job](const DeviceAttributes& device) {
          return std::make_unique<LeanDevice>(
              device, &has_host_memory_,
              device.name.task == 1 ? job.has_memory : nullptr);
        },
        job.max_entries);
    has_host_memory_ = true;
    job_->Join();
    environment_.RunAll();
  }
  // Destroys the network once its queue is empty.
  void End() {
    if (job_ == nullptr) return;
    for (int rank = 0; rank < job_->num_ranks(); ++rank) job_->Destroy(rank);
    environment_.RunAll();
    job_ = nullptr;
  }
  void TearDown() override {
    End();
    for (const NamedCallPtr& call : calls_) EXPECT_EQ(call->num_answers, 1);
  }

  Coordinator& at(int rank) { return job_->at(rank); }

  NamedCallPtr Reduce(int rank, const std::string& name, const Tensor& input,
                      MergeOp merge_op = MergeOp()) {
    return calls_.emplace_back(
        CallAllReduce(at(rank), name, input, std::move(merge_op)));
  }
  NamedCallPtr Reduce(int rank, const std::string& name) {
    return Reduce(rank, name, Ones(rank));
  }
  NamedCallPtr Gather(int rank, const std::string& name, const Tensor& input) {
    return calls_.emplace_back(CallAllGather(at(rank), name, input));
  }

  NamedCallPtr Call(int rank, NamedMethod method, NamedTensor tensor,
                    Tensor output = Tensor()) {
    return calls_.emplace_back(
        CallNamed(at(rank), method, std::move(tensor), std::move(output)));
  }

  // Begins where collectives run at their exact sizes, or where no room is left
  // for that and they run in parts.
  void BeginWithRoom(bool has_room) {
    constexpr int kExact = 20;  // A quarter of the entries.
    if (has_room) return Begin();
    Begin({.fusion_bytes = 0}, {.max_entries = 4 * kExact});
    std::vector<NamedCallPtr> calls;
    for (int i = 0; i < kExact; ++i) {
      for (int rank = 0; rank < kNumRanks; ++rank) {
        calls.push_back(Reduce(rank, absl::StrCat(i), Ones(rank, 100 + i)));
      }
    }
    environment_.RunAll();
    ExpectEnds(calls, IsOk());
  }

  // Calls by rank, then by name.
  std::vector<NamedCallPtr> ReduceOnAll(const std::vector<std::string>& names) {
    std::vector<NamedCallPtr> calls;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      for (const std::string& name : names) calls.push_back(Reduce(rank, name));
    }
    return calls;
  }

  // Reduces the names on all ranks and expects success.
  void ExpectAllMeet(const std::vector<std::string>& names) {
    const auto calls = ReduceOnAll(names);
    environment_.RunAll();
    ExpectEnds(calls, IsOk());
  }

  // Elements are all rank + 1.
  static Tensor Ones(int rank, int64_t num_elements = 3) {
    return Filled(DType::kFloat32, TensorShape::Vector(num_elements),
                  static_cast<float>(rank + 1));
  }
  // Element i is 1000 * rank + i.
  static Tensor Counted(int rank, const std::vector<int64_t>& dims) {
    Tensor tensor = Filled(DType::kFloat32, *TensorShape::Create(dims), 0);
    auto* const values = reinterpret_cast<float*>(tensor.mutable_data());
    std::iota(values, values + tensor.num_elements(),
              static_cast<float>(1000 * rank));
    return tensor;
  }
  static void ExpectEqual(const Tensor& given, const Tensor& wanted) {
    const auto values = [](const Tensor& tensor) {
      NamedCall call;
      call.output = tensor;
      return call.Values();
    };
    EXPECT_EQ(given.shape().ToString(), wanted.shape().ToString());
    EXPECT_EQ(values(given), values(wanted));
  }
  static Tensor Zeros(DType dtype, std::vector<int64_t> dims) {
    return Filled(dtype, *TensorShape::Create(dims), 0);
  }

  RanksHere ranks() { return RanksOf(*job_); }

  SimulatedEnvironment environment_{GetParam().seed};
  bool has_host_memory_ = true;
  std::unique_ptr<NamedTensorJob> job_;
  std::vector<NamedCallPtr> calls_;

  const std::function<bool(const std::vector<NamedCallPtr>&)> settle_ =
      [this](const std::vector<NamedCallPtr>& calls) {
        environment_.RunAll();
        calls_.insert(calls_.end(), calls.begin(), calls.end());
        return std::all_of(calls.begin(), calls.end(),
                           [](const auto& call) { return call->answered(); });
      };
};

INSTANTIATE_TEST_SUITE_P(Seeds, NamedTensorsTest,
                         testing::Values(Case{1}, Case{2}, Case{3}, Case{4}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.seed);
                         });

INSTANTIATE_TEST_SUITE_P(RunsInOrder, NamedTensorsTest,
                         testing::Values(Case{1, true}, Case{2, true},
                                         Case{3, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.seed);
                         });

TEST_P(NamedTensorsTest, RanksMeetInWhateverOrderTheyAsk) {
  for (const int64_t fusion_bytes : {0, 2000, 64 << 20}) {
    Begin({.fusion_bytes = fusion_bytes});
    std::mt19937_64 generator(GetParam().seed);
    for (int round = 0; round < 2; ++round) {
      constexpr int kNumNames = 1000;
      std::vector<std::vector<NamedCallPtr>> calls(
          kNumRanks, std::vector<NamedCallPtr>(kNumNames));
      for (int rank = 0; rank < kNumRanks; ++rank) {
        std::vector<int> order(kNumNames);
        for (int i = 0; i < kNumNames; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), generator);
        for (const int i : order) {
          calls[rank][i] =
              Reduce(rank, absl::StrCat("tensor ", i),
                     Filled(DType::kFloat32, TensorShape::Vector(i % 50),
                            static_cast<float>((rank + 1) * i)));
          environment_.RunSome(static_cast<int>(generator() % 3));
        }
      }
      environment_.RunAll();
      for (int rank = 0; rank < kNumRanks; ++rank) {
        for (int i = 0; i < kNumNames; ++i) {
          const NamedCall& call = *calls[rank][i];
          ASSERT_TRUE(call.answered()) << rank << " " << i;
          ASSERT_THAT(call.status, IsOk());
          ASSERT_EQ(call.output.num_elements(), i % 50);
          ASSERT_THAT(call.Values(), Each(6.0f * static_cast<float>(i)));
        }
      }
    }
  }
}

TEST_P(NamedTensorsTest, GathersWhatEachRankHas) {
  Begin();
  std::vector<NamedCallPtr> calls;
  for (int round = 0; round < 2; ++round) {
    for (int rank = kNumRanks - 1; rank >= 0; --rank) {
      calls.push_back(
          Gather(rank, "rows",
                 Filled(DType::kFloat32,
                        *TensorShape::Create({rank == 1 ? 0 : rank + round, 2}),
                        static_cast<float>(rank + 1))));
    }
    environment_.RunAll();
    for (const NamedCallPtr& call : calls) {
      ASSERT_THAT(call->status, IsOk());
      if (round == 0) {
        EXPECT_THAT(call->Values(), ElementsAre(3, 3, 3, 3));
        EXPECT_EQ(call->output.shape().ToString(), "[2,2]");
      } else {
        EXPECT_THAT(call->Values(), ElementsAre(1, 1, 3, 3, 3, 3, 3, 3));
      }
    }
    calls.clear();
  }
}

TEST_P(NamedTensorsTest, OtherRowsTakeNoMoreMessagesThanTheSame) {
  Begin();
  const auto num_calls_of = [&](int first_rows) {
    const int64_t before = job_->network().num_calls();
    std::vector<NamedCallPtr> calls;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      calls.push_back(Gather(rank, "rows", Ones(rank, first_rows + rank)));
    }
    environment_.RunAll();
    for (const NamedCallPtr& call : calls) {
      EXPECT_THAT(call->status, IsOk());
      EXPECT_EQ(call->output.num_elements(), kNumRanks * (first_rows + 1));
    }
    return job_->network().num_calls() - before;
  };
  num_calls_of(70);  // Settles the instance.
  const int64_t of_the_same = num_calls_of(70);
  EXPECT_EQ(num_calls_of(71), of_the_same);
  EXPECT_EQ(num_calls_of(80), of_the_same);
}

// Memory for instances is limited, but no result gets lost.
TEST_P(NamedTensorsTest, EverOtherRowsAndSizesLeaveRoomForMore) {
  Begin({.fusion_bytes = 0}, {.max_entries = 40});
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const int i = round % 30;  // Repeats earlier values.
    std::vector<NamedCallPtr> gathers, sums;
    std::vector<float> wanted;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      const int rows = i == 15 ? 0 : (i * (rank + 1) + rank) % 7;
      const Tensor input =
          Filled(DType::kFloat32, *TensorShape::Create({rows, 2}),
                 static_cast<float>(rank + 1));
      wanted.insert(wanted.end(), 2 * rows, static_cast<float>(rank + 1));
      gathers.push_back(Gather(rank, "rows", input));
      sums.push_back(Reduce(rank, "sum", Ones(rank, 64 + i)));
    }
    environment_.RunAll();
    for (int rank = 0; rank < kNumRanks; ++rank) {
      ASSERT_THAT(gathers[rank]->status, IsOk());
      EXPECT_EQ(gathers[rank]->Values(), wanted);
      EXPECT_EQ(gathers[rank]->output.shape().ToString(),
                absl::StrCat("[", wanted.size() / 2, ",2]"));
      ASSERT_THAT(sums[rank]->status, IsOk());
      EXPECT_EQ(sums[rank]->Values(), std::vector<float>(64 + i, 6.0f));
    }
  }
}

// A program's other collectives need room for settled instances, too.
TEST_P(NamedTensorsTest, ManyNewSizesLeaveRoomForOtherCollectives) {
  if (GetParam().seed > 2) GTEST_SKIP() << "it takes long";
  for (const bool gathers : {false, true}) {
    Begin({.fusion_bytes = gathers ? int64_t{1} << 20 : 0});
    ExpectAllMeet({"first"});
    constexpr int kNumNames = 1500;
    std::vector<NamedCallPtr> calls;
    // The last rank requests first; its later messages are delayed.
    for (int rank = kNumRanks - 1; rank >= 0; --rank) {
      for (int i = 0; i < kNumNames; ++i) {
        const std::string name = absl::StrCat("tensor ", i);
        calls.push_back(gathers ? Gather(rank, name, Ones(rank, 4 + i))
                                : Reduce(rank, name, Ones(rank, 4 + i)));
      }
      environment_.RunAll();
      if (rank == kNumRanks - 1) job_->network().HoldCalls(rank);
    }
    for (const NamedCallPtr& call : calls) ASSERT_FALSE(call->answered());
    std::vector<NamedCall> others(2);
    for (int rank : {1, 0}) {
      CollectiveRequest request;
      request.group_key = request.instance_key = 1;
      request.group_size = 2;
      request.op = AllReduce{};
      request.shape = TensorShape::Vector(3);
      job_->runtime(rank).manager().FindOrCreate(1)->ExecuteAsync(
          {.device = job_->runtime(rank).devices()[0],
           .request = std::make_shared<const CollectiveRequest>(request),
           .input = Ones(rank),
           .output = &others[rank].output},
          others[rank].Set());
      environment_.RunAll();
    }
    for (const NamedCall& call : others) {
      ASSERT_THAT(call.status, IsOk());
      EXPECT_THAT(call.Values(), Each(3.0f));
    }
    job_->network().ReleaseCalls(kNumRanks - 1);
    environment_.RunAll();
    ExpectEnds(calls, IsOk());
  }
}

// Covers tensors that are ready, but not decided because too many are new.
TEST_P(NamedTensorsTest, AShutdownEndsWhatWaitsForNewSizesToBeSettled) {
  Begin({.fusion_bytes = 0});
  ExpectAllMeet({"first"});
  constexpr int kNumNames = 600;
  std::vector<NamedCallPtr> calls;
  for (int rank = kNumRanks - 1; rank >= 0; --rank) {
    for (int i = 0; i < kNumNames; ++i) {
      calls.push_back(Reduce(rank, absl::StrCat(i), Ones(rank, 4 + i)));
    }
    environment_.RunAll();
    if (rank == kNumRanks - 1) job_->network().HoldCalls(rank);
  }
  NamedCall down;
  at(1).Shutdown(down.Set());
  environment_.RunAll();
  job_->network().ReleaseCalls(kNumRanks - 1);
  environment_.RunAll();
  EXPECT_THAT(down.status, IsOk());
  int num_run = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(calls[i]->answered());
    EXPECT_EQ(calls[i]->status, calls[i % kNumNames]->status);
    EXPECT_TRUE(calls[i]->status.ok() || absl::IsCancelled(calls[i]->status));
    if (calls[i]->status.ok()) ++num_run;
  }
  EXPECT_EQ(num_run, 256 * kNumRanks);
}

TEST_P(NamedTensorsTest, ReducesInPlaceAndWithOtherOps) {
  Begin();
  std::vector<NamedCallPtr> calls;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    const Tensor tensor = Ones(rank);
    calls.push_back(std::make_shared<NamedCall>());
    calls.back()->output = tensor;
    at(rank).AllReduce(
        {.name = "in place", .input = tensor, .output = &calls.back()->output},
        calls.back()->Set());
    calls.push_back(Reduce(rank, "max", Ones(rank), ReductionKind::kMax));
  }
  environment_.RunAll();
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_THAT(calls[i]->status, IsOk());
    EXPECT_THAT(calls[i]->Values(), Each(i % 2 == 0 ? 6.0f : 3.0f));
  }
}

// --- Other collectives -------------------------------------------------------

TEST_P(NamedTensorsTest, AveragesAloneAndFused) {
  for (const int64_t fusion_bytes : {0, 64 << 20}) {
    Begin({.fusion_bytes = fusion_bytes});
    std::vector<NamedCallPtr> averages, sums;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      for (const std::string name : {"a", "b"}) {
        averages.push_back(Call(rank, &Coordinator::AllReduce,
                                {.name = name,
                                 .input = Ones(rank),
                                 .final_op = FinalOp::DivideByGroupSize()}));
        sums.push_back(Reduce(rank, name + " sum"));
      }
    }
    environment_.RunAll();
    ExpectEnds(averages, IsOk());
    ExpectEnds(sums, IsOk());
    for (const auto& call : averages) EXPECT_THAT(call->Values(), Each(2.0f));
    for (const auto& call : sums) EXPECT_THAT(call->Values(), Each(6.0f));
  }
}

TEST_P(NamedTensorsTest, EveryRootBroadcasts) {
  for (const bool has_room : {true, false}) {
    BeginWithRoom(has_room);
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{}, {0}, {7}, {2, 3}}) {
      for (int root = 0; root < kNumRanks; ++root) {
        SCOPED_TRACE(absl::StrCat(has_room, " root ", root));
        std::vector<NamedCallPtr> calls;
        for (int rank = 0; rank < kNumRanks; ++rank) {
          NamedTensor tensor{.name = "x", .root = root};
          Tensor output;
          // The first root's output is new; the others' is in place. Other
          // ranks give an input that is not read, or an output.
          if (rank == root || rank == 0) tensor.input = Counted(rank, dims);
          if (rank > 0) {
            output = rank == root ? tensor.input : Counted(rank, dims);
          }
          calls.push_back(
              Call(rank, &Coordinator::Broadcast, std::move(tensor), output));
        }
        environment_.RunAll();
        ExpectEnds(calls, IsOk());
        for (const auto& call : calls)
          ExpectEqual(call->output, Counted(root, dims));
      }
    }
  }
}

// Rank r's block has one row more than the last rank's if r is less than the
// remainder.
TEST_P(NamedTensorsTest, ReduceScatterGivesEachRankItsBlock) {
  for (const bool has_room : {true, false}) {
    BeginWithRoom(has_room);
    for (const int64_t num_rows : {0, 1, 3, 5, 7, 12}) {
      for (const bool averages : {false, true}) {
        SCOPED_TRACE(absl::StrCat(has_room, " rows ", num_rows));
        std::vector<NamedCallPtr> calls;
        int64_t begin = 0;
        std::vector<Tensor> wanted;
        for (int rank = 0; rank < kNumRanks; ++rank) {
          const int64_t end =
              begin + num_rows / kNumRanks + (rank < num_rows % kNumRanks);
          // Sums of 1000 * rank + i.
          Tensor sums = Counted(averages ? 1 : 3, {num_rows, 2});
          auto* const values = reinterpret_cast<float*>(sums.mutable_data());
          for (int i = 0; !averages && i < 2 * num_rows; ++i) {
            values[i] += 2.0f * static_cast<float>(i);
          }
          wanted.push_back(*sums.Slice(begin, end));
          const Tensor input = Counted(rank, {num_rows, 2});
          // Rank 1's output is its block of the input; rank 2's is given.
          calls.push_back(Call(
              rank, &Coordinator::ReduceScatter,
              {.name = "x",
               .input = input,
               .final_op = averages ? FinalOp::DivideByGroupSize() : FinalOp()},
              rank == 0   ? Tensor()
              : rank == 1 ? *input.Slice(begin, end)
                          : Counted(9, {end - begin, 2})));
          begin = end;
        }
        environment_.RunAll();
        ExpectEnds(calls, IsOk());
        for (int rank = 0; rank < kNumRanks; ++rank) {
          ExpectEqual(calls[rank]->output, wanted[rank]);
        }
      }
    }
  }
}

TEST_P(NamedTensorsTest, AllToAllSendsEachRankItsRows) {
  for (const bool has_room : {true, false}) {
    BeginWithRoom(has_room);
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(absl::StrCat(has_room, " round ", round));
      // Equal rows, given by nobody or by rank 1 alone; or others. The round
      // before the last has none.
      const auto rows = [round](int from, int to) -> int64_t {
        if (round < 2) return 2;
        return round == 4 ? 0 : (from + 2 * to + round) % 4;
      };
      std::vector<NamedCallPtr> calls;
      for (int rank = 0; rank < kNumRanks; ++rank) {
        NamedTensor tensor{.name = "x"};
        int64_t num_rows = 0;
        for (int to = 0; to < kNumRanks; ++to) {
          num_rows += rows(rank, to);
          if (round == 0 || (round == 1 && rank != 1)) continue;
          tensor.send_rows.push_back(rows(rank, to));
        }
        tensor.input = Counted(rank, {num_rows, 2});
        calls.push_back(Call(rank, &Coordinator::AllToAll, std::move(tensor)));
      }
      environment_.RunAll();
      ExpectEnds(calls, IsOk());
      for (int rank = 0; rank < kNumRanks; ++rank) {
        std::vector<float> wanted;
        std::vector<int64_t> received_rows;
        for (int from = 0; from < kNumRanks; ++from) {
          int64_t begin = 0;
          for (int to = 0; to < rank; ++to) begin += rows(from, to);
          received_rows.push_back(rows(from, rank));
          for (int64_t i = 2 * begin; i < 2 * (begin + rows(from, rank)); ++i) {
            wanted.push_back(static_cast<float>(1000 * from + i));
          }
        }
        EXPECT_EQ(calls[rank]->Values(), wanted);
        EXPECT_EQ(calls[rank]->received_rows, received_rows);
        EXPECT_EQ(calls[rank]->output.shape().ToString(),
                  absl::StrCat("[", wanted.size() / 2, ",2]"));
      }
    }
  }
}

TEST_P(NamedTensorsTest, NamesAreAnyBytes) {
  Begin();
  ExpectNamesAreAnyBytes(ranks(), settle_);
}

// --- Errors ------------------------------------------------------------------

TEST_P(NamedTensorsTest, EveryRankHearsWhatDiffersAndTheNameCanBeUsedAgain) {
  Begin();
  ExpectAllHearWhatDiffers(ranks(), settle_);
}

TEST_P(NamedTensorsTest, ANameAskedForTwiceBeforeItRanIsRefused) {
  Begin();
  ExpectASecondRequestIsRefused(ranks(), settle_);
}

TEST_P(NamedTensorsTest, RefusesWhatCannotRun) {
  Begin();
  EXPECT_THAT(Reduce(1, "x", Zeros(DType::kBool, {2}))->status,
              IsInvalidArgument("bool"));
  EXPECT_THAT(
      Reduce(1, "x", Zeros(DType::kFloat32, {2}), ReductionKind::kBand)->status,
      IsInvalidArgument("float32", "band"));
  EXPECT_THAT(Reduce(1, "x", Tensor())->status,
              IsInvalidArgument("there is no input"));
  NamedCall call;
  call.output = Zeros(DType::kFloat32, {3});
  at(1).AllReduce({.name = "x",
                   .input = Zeros(DType::kFloat32, {2}),
                   .output = &call.output},
                  call.Set());
  EXPECT_THAT(call.status,
              IsInvalidArgument("the output is float32[3], wanted"));
}

TEST_P(NamedTensorsTest, AllRanksHearOfARootOrRowsThatCannotBe) {
  Begin();
  const auto expect = [&](NamedMethod method, auto tensor_of,
                          const std::string& text) {
    std::vector<NamedCallPtr> calls;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      NamedTensor tensor = tensor_of(rank);
      tensor.name = "x";
      calls.push_back(Call(rank, method, std::move(tensor)));
    }
    environment_.RunAll();
    for (const auto& call : calls) {
      EXPECT_EQ(call->status,
                absl::FailedPreconditionError("tensor \"x\": " + text));
    }
    ExpectAllMeet({"x"});
  };
  expect(
      &Coordinator::Broadcast,
      [](int rank) { return NamedTensor{.input = Ones(0), .root = rank / 2}; },
      "mismatched broadcast root ranks: one rank gave root rank 0, but another "
      "rank gave root rank 1: ranks [0, 1] / [2]");
  expect(
      &Coordinator::Broadcast,
      [](int) { return NamedTensor{.input = Ones(0), .root = 3}; },
      "root rank 3 of 3 ranks: ranks [0, 1, 2]");
  expect(
      &Coordinator::AllToAll,
      [](int rank) {
        NamedTensor tensor{.input = Ones(0)};
        if (rank == 1) tensor.send_rows = {1, 2};
        return tensor;
      },
      "wanted send_rows for 3 ranks: ranks [1]");
  expect(
      &Coordinator::AllToAll,
      [](int rank) { return NamedTensor{.input = Ones(0, 3 + rank)}; },
      "rows that do not divide among 3 ranks, without send_rows: ranks [1, "
      "2]");
}

TEST_P(NamedTensorsTest, RefusesWhatNoOtherRankCanMend) {
  Begin();
  EXPECT_THAT(
      Call(1, &Coordinator::Broadcast, {.name = "x", .root = 1}, Ones(0))
          ->status,
      IsInvalidArgument("there is no input"));
  EXPECT_THAT(Call(1, &Coordinator::Broadcast, {.name = "x"})->status,
              IsInvalidArgument("there is no input"));
  EXPECT_THAT(Call(1, &Coordinator::Broadcast,
                   {.name = "x", .input = Ones(0), .root = -1})
                  ->status,
              IsInvalidArgument("the root is -1"));
  EXPECT_THAT(Call(1, &Coordinator::AllToAll,
                   {.name = "x", .input = Ones(0), .send_rows = {1, 1, 2}})
                  ->status,
              IsInvalidArgument("4 rows in all; the input has 3"));
  EXPECT_THAT(Call(1, &Coordinator::AllToAll,
                   {.name = "x", .input = Ones(0), .send_rows = {4, -1, 0}})
                  ->status,
              IsInvalidArgument("send_rows has -1"));
  EXPECT_THAT(Call(1, &Coordinator::ReduceScatter,
                   {.name = "x", .input = Zeros(DType::kBool, {3})})
                  ->status,
              IsInvalidArgument("bool"));
  const Tensor input = Ones(0, 7);
  EXPECT_THAT(Call(1, &Coordinator::ReduceScatter,
                   {.name = "x", .input = input}, *input.Slice(0, 3))
                  ->status,
              IsInvalidArgument("the output is float32[3], wanted float32[2]"));
  EXPECT_THAT(Call(1, &Coordinator::ReduceScatter,
                   {.name = "x", .input = input}, *input.Slice(0, 2))
                  ->status,
              IsInvalidArgument("overlap"));
}

// --- Ranks that have joined --------------------------------------------------

// Reductions end on all ranks as if the joined ranks were not there; an average
// divides by all ranks. Several run alone, fused, or in parts.
TEST_P(NamedTensorsTest, JoinedRanksBringTheNeutralElement) {
  for (const int64_t fusion_bytes : {0, 64 << 20}) {
    for (int joined = 0; joined < kNumRanks; ++joined) {
      for (const bool alone : {false, true}) {
        SCOPED_TRACE(absl::StrCat(fusion_bytes, " ", joined, " ", alone));
        Begin({.fusion_bytes = fusion_bytes});
        Joins joins(kNumRanks);
        // Ranks that go on: two, or one.
        const int other = (joined + 1) % kNumRanks;
        const auto goes_on = [&](int rank) {
          return rank != joined && !(alone && rank == other);
        };
        for (int rank = 0; rank < kNumRanks; ++rank) {
          if (!goes_on(rank)) joins.Join(at(rank), rank);
        }
        EXPECT_THAT(Reduce(joined, "late")->status,
                    IsFailedPrecondition("has joined"));
        std::vector<NamedCallPtr> sums, averages, products, least, most;
        float sum = 0, product = 1, min = 9, max = 0;
        for (int rank = 0; rank < kNumRanks; ++rank) {
          if (!goes_on(rank)) continue;
          const float value = static_cast<float>(rank + 1);
          sum += value;
          product *= value;
          min = std::min(min, value);
          max = std::max(max, value);
          for (const int n : {0, 1, 7, 9001}) {
            const std::string name = absl::StrCat(" ", n);
            const Tensor in = Ones(rank, n);
            sums.push_back(Reduce(rank, "sum" + name, in));
            averages.push_back(
                Call(rank, &Coordinator::AllReduce,
                     {.name = "average" + name,
                      .input = in,
                      .final_op = FinalOp::DivideByGroupSize()}));
            products.push_back(
                Reduce(rank, "prod" + name, in, ReductionKind::kProd));
            least.push_back(
                Reduce(rank, "min" + name, in, ReductionKind::kMin));
            most.push_back(Reduce(rank, "max" + name, in, ReductionKind::kMax));
          }
        }
        environment_.RunAll();
        for (const auto& [calls, wanted] :
             {std::pair(sums, sum), std::pair(averages, sum / kNumRanks),
              std::pair(products, product), std::pair(least, min),
              std::pair(most, max)}) {
          ExpectEnds(calls, IsOk());
          for (const auto& call : calls) {
            EXPECT_THAT(call->Values(), Each(wanted));
          }
        }
        EXPECT_EQ(joins.num_ended(), 0);
        int last = 0;
        for (int rank = 0; rank < kNumRanks; ++rank) {
          if (!goes_on(rank)) continue;
          joins.Join(at(rank), rank);
          environment_.RunAll();
          last = rank;
        }
        joins.ExpectLast(last);
        ExpectAllMeet({"sum 7", "again"});
      }
    }
  }
}

TEST_P(NamedTensorsTest, JoinedRanksAreNoRootAndHaveNoRows) {
  for (const bool has_room : {true, false}) {
    for (int joined = 0; joined < kNumRanks; ++joined) {
      SCOPED_TRACE(absl::StrCat(has_room, " ", joined));
      BeginWithRoom(has_room);
      Joins joins(kNumRanks);
      joins.Join(at(joined), joined);
      const int root = (joined + 1) % kNumRanks;
      std::vector<NamedCallPtr> gathers, broadcasts;
      std::vector<float> rows;
      for (int rank = 0; rank < kNumRanks; ++rank) {
        if (rank == joined) continue;
        gathers.push_back(Gather(rank, "rows", Counted(rank, {rank + 1, 2})));
        for (int i = 0; i < 2 * (rank + 1); ++i) {
          rows.push_back(static_cast<float>(1000 * rank + i));
        }
        broadcasts.push_back(
            Call(rank, &Coordinator::Broadcast,
                 {.name = "x", .input = Counted(rank, {7}), .root = root}));
      }
      environment_.RunAll();
      ExpectEnds(gathers, IsOk());
      ExpectEnds(broadcasts, IsOk());
      for (const auto& call : gathers) EXPECT_EQ(call->Values(), rows);
      for (const auto& call : broadcasts) {
        ExpectEqual(call->output, Counted(root, {7}));
      }
      for (int rank = 0; rank < kNumRanks; ++rank) {
        if (rank != joined) joins.Join(at(rank), rank);
      }
      environment_.RunAll();
      EXPECT_EQ(joins.num_ended(), kNumRanks);
    }
  }
}

TEST_P(NamedTensorsTest, WhatNeedsAJoinedRankIsRefusedOnAllOthers) {
  Begin();
  const MergeOp custom =
      *MergeOp::Custom({.name = "mine",
                        .apply = [](DType, const void*, const void*, void*,
                                    int64_t) { return absl::OkStatus(); }});
  struct Case {
    NamedMethod method;
    NamedTensor tensor;
    std::string text;
  };
  const std::vector<Case> cases = {
      {&Coordinator::Broadcast,
       {.input = Ones(0), .root = 1},
       "broadcast: the root has joined; joined: ranks [1]"},
      {&Coordinator::ReduceScatter,
       {.input = Ones(0)},
       "reducescatter: ranks that have joined would get rows; joined: ranks "
       "[1]"},
      {&Coordinator::AllToAll,
       {.input = Ones(0)},
       "alltoall: ranks that have joined would get rows; joined: ranks [1]"},
      {&Coordinator::AllReduce,
       {.input = Ones(0), .merge_op = custom},
       "allreduce: a custom op has no neutral element for ranks that have "
       "joined; joined: ranks [1]"},
  };
  Joins joins(kNumRanks);
  joins.Join(at(1), 1);
  for (const Case& one : cases) {
    std::vector<NamedCallPtr> calls;
    for (const int rank : {2, 0}) {
      NamedTensor tensor = one.tensor;
      tensor.name = "x";
      calls.push_back(Call(rank, one.method, std::move(tensor)));
    }
    environment_.RunAll();
    for (const auto& call : calls) {
      EXPECT_EQ(call->status,
                absl::FailedPreconditionError("tensor \"x\": " + one.text));
    }
  }
  const auto mismatch = {Reduce(0, "y"), Gather(2, "y", Ones(2))};
  environment_.RunAll();
  for (const auto& call : mismatch) {
    EXPECT_THAT(call->status, IsFailedPrecondition("ranks [0] / [2]"));
  }
  joins.Join(at(0), 0);
  joins.Join(at(2), 2);
  environment_.RunAll();
  EXPECT_EQ(joins.num_ended(), kNumRanks);
  ExpectAllMeet({"x", "y"});
}

// The names are known by a bit before. Joins come after any number of pieces of
// work, and each rank joins while its own requests are under way.
TEST_P(NamedTensorsTest, RanksJoinAgainAndAgainWhileTheOthersGoOn) {
  Begin({.fusion_bytes = 100});
  std::mt19937_64 generator(GetParam().seed);
  for (int round = 0; round < 20; ++round) {
    Joins joins(kNumRanks);
    std::vector<int> num_steps;
    std::vector<std::vector<NamedCallPtr>> calls(8);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      num_steps.push_back(static_cast<int>(generator() % calls.size()));
      for (int step = 0; step < num_steps[rank]; ++step) {
        calls[step].push_back(
            Reduce(rank, absl::StrCat("step ", step), Ones(rank, 5 * step)));
      }
      joins.Join(at(rank), rank);
      environment_.RunSome(static_cast<int>(generator() % 20));
    }
    environment_.RunAll();
    for (size_t step = 0; step < calls.size(); ++step) {
      float sum = 0;
      for (int rank = 0; rank < kNumRanks; ++rank) {
        if (num_steps[rank] > static_cast<int>(step)) {
          sum += static_cast<float>(rank + 1);
        }
      }
      ExpectEnds(calls[step], IsOk());
      for (const auto& call : calls[step]) {
        EXPECT_THAT(call->Values(), Each(sum));
      }
    }
    EXPECT_EQ(joins.num_ended(), kNumRanks);
  }
}

TEST_P(NamedTensorsTest, AJoinedRankIsNotReportedAndAnEndEndsItsJoin) {
  std::vector<StalledTensor> reports;
  Begin({.stalled = [&](const auto& tensor) { reports.push_back(tensor); }});
  Joins joins(kNumRanks);
  joins.Join(at(2), 2);
  Joins twice(kNumRanks);
  twice.Join(at(2), 2);
  EXPECT_THAT(twice.result(2).status(), IsFailedPrecondition("has joined"));
  Reduce(1, "slow");
  environment_.RunAll();
  environment_.Advance(absl::Seconds(61));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_THAT(reports[0].missing, ElementsAre(0));
  NamedCall down;
  at(0).Shutdown(down.Set());
  environment_.RunAll();
  EXPECT_THAT(joins.result(2).status(), IsCancelled("task 0"));
  Joins late(kNumRanks);
  late.Join(at(2), 2);
  EXPECT_THAT(late.result(2).status(), IsCancelled("shut down"));
}

TEST_P(NamedTensorsTest, AJoinedRankWithoutMemoryEndsOnlyWhatNeedsSome) {
  bool has_memory = true;
  Begin({.fusion_bytes = 0}, {.has_memory = &has_memory});
  Joins joins(kNumRanks);
  joins.Join(at(1), 1);
  environment_.RunAll();
  for (const bool has : {false, true}) {
    has_memory = has;
    std::vector<NamedCallPtr> calls;
    for (const int rank : {0, 2}) {
      calls.push_back(Reduce(rank, "x"));
      calls.push_back(Call(rank, &Coordinator::Broadcast,
                           {.name = "y", .input = Ones(rank)}));
    }
    environment_.RunAll();
    for (const auto& call : calls) {
      ASSERT_TRUE(call->answered());
      EXPECT_EQ(call->status.ok(), has) << call->status;
    }
  }
}

// --- Ranks that are missing --------------------------------------------------

TEST_P(NamedTensorsTest, ATensorThatStallsIsReportedOnce) {
  std::vector<StalledTensor> reports;
  Begin({.stalled = [&](const auto& tensor) { reports.push_back(tensor); }});
  const auto stalled = Reduce(1, "slow");
  for (int rank = 0; rank < kNumRanks; ++rank) Reduce(rank, "fast");
  environment_.RunAll();
  environment_.Advance(absl::Seconds(59));
  EXPECT_TRUE(reports.empty());
  environment_.Advance(absl::Seconds(2));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].ToString(),
            "tensor \"slow\" has waited for 1m: ranks that have asked for "
            "it: [1]; ranks that have not: [0, 2]");
  environment_.Advance(absl::Minutes(10));
  EXPECT_EQ(reports.size(), 1u);
  Reduce(0, "slow");
  Reduce(2, "slow");
  environment_.RunAll();
  EXPECT_THAT(stalled->status, IsOk());
}

TEST_P(NamedTensorsTest, ALimitEndsATensorThatStalls) {
  Begin({.stall_deadline = absl::Seconds(90), .stalled = [](const auto&) {}});
  const auto first = Reduce(1, "slow");
  environment_.RunAll();
  environment_.Advance(absl::Seconds(20));
  const auto second = Reduce(2, "slow");
  environment_.RunAll();
  environment_.Advance(absl::Seconds(71));
  ExpectEnds({first, second},
             IsDeadlineExceeded("tensor \"slow\"", "ranks that have not: [0]"));
  ExpectAllMeet({"slow"});
}

// --- The end -----------------------------------------------------------------

// Covers a shutdown after any number of pieces of work.
TEST_P(NamedTensorsTest, AShutdownLeavesNobodyWaiting) {
  for (int num_works = 0; num_works < 120; num_works += 3) {
    for (int by = 0; by < 2; ++by) {
      Begin();
      const auto calls = ReduceOnAll({"a", "b", "c"});
      const auto one_sided = Reduce(2, "only one asks for it");
      environment_.RunSome(num_works);
      NamedCall down, twice;
      at(by).Shutdown(down.Set());
      at(by).Shutdown(twice.Set());
      EXPECT_THAT(Reduce(by, "late")->status, IsCancelled("shut"));
      environment_.RunAll();
      EXPECT_THAT(down.status, IsOk());
      EXPECT_THAT(twice.status, IsOk());
      EXPECT_THAT(one_sided->status, IsCancelled(absl::StrCat("task ", by)));
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(calls[i]->status, calls[i + 3]->status);
        EXPECT_EQ(calls[i]->status, calls[i + 6]->status);
        EXPECT_TRUE(calls[i]->status.ok() ||
                    absl::IsCancelled(calls[i]->status))
            << calls[i]->status;
      }
      EXPECT_THAT(Reduce(2, "later")->status, IsCancelled("shut"));
    }
  }
}

// Each tensor is a separate run: with runs in order, some wait for their
// turn.
TEST_P(NamedTensorsTest, AShutdownLetsAllDecidedRunsFinishAndAnEndNone) {
  for (int num_works = 0; num_works < 400; num_works += 23) {
    for (const bool shuts_down : {false, true}) {
      SCOPED_TRACE(absl::StrCat(num_works, " works, ", shuts_down));
      Begin({.fusion_bytes = 0});
      constexpr int kNumNames = 20;
      std::vector<NamedCallPtr> calls;
      for (int rank = 0; rank < kNumRanks; ++rank) {
        for (int i = 0; i < kNumNames; ++i) {
          calls.push_back(Reduce(rank, absl::StrCat(i), Ones(rank, i + 1)));
        }
      }
      environment_.RunSome(num_works);
      NamedCall down;
      if (shuts_down) {
        at(2).Shutdown(down.Set());
      } else {
        at(2).End(absl::AbortedError("enough"));
      }
      environment_.RunAll();
      for (size_t i = 0; i < calls.size(); ++i) {
        const absl::Status& status = calls[i]->status;
        ASSERT_TRUE(calls[i]->answered());
        if (shuts_down) {
          EXPECT_EQ(status, calls[i % kNumNames]->status);
          EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
        } else if (!status.ok()) {
          EXPECT_THAT(status, IsAborted("enough"));
        }
      }
      EXPECT_EQ(down.status.ok(), shuts_down);
    }
  }
}

// Covers tensors decided before the shutdown whose decision never reached the
// rank.
TEST_P(NamedTensorsTest, ARankThatEndsDuringAShutdownLeavesNobodyWaiting) {
  for (int num_works = 0; num_works < 60; ++num_works) {
    for (const int ends : {0, 2}) {
      SCOPED_TRACE(absl::StrCat("rank ", ends, " after ", num_works));
      Begin();
      auto calls = ReduceOnAll({"a", "b", "c"});
      environment_.RunSome(num_works / 2);
      NamedCall down;
      at(1).Shutdown(down.Set());
      environment_.RunSome(num_works - num_works / 2);
      at(ends).End(absl::CancelledError("enough"));
      environment_.RunAll();
      environment_.Advance(absl::Seconds(30));
      for (const NamedCallPtr& call : calls) EXPECT_TRUE(call->answered());
      EXPECT_THAT(down.status, IsOk());
    }
  }
}

TEST_P(NamedTensorsTest, ARankThatEndsAndAskedForNothingLeavesNobodyWaiting) {
  for (int ends = 0; ends < kNumRanks; ++ends) {
    Begin();
    std::vector<NamedCallPtr> calls;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      if (rank != ends) calls.push_back(Reduce(rank, "x"));
    }
    environment_.RunAll();
    at(ends).End(absl::CancelledError("enough"));
    environment_.RunAll();
    ExpectEnds(calls, IsCancelled("enough"));
  }
}

// Covers requests made in callbacks during the shutdown.
TEST_P(NamedTensorsTest, AShutdownEndsAfterAllRequestsHaveBeenTold) {
  Begin();
  constexpr int kNumRequests = 3;
  int num_reported = 0;
  std::vector<int> reported_at_end;
  std::vector<Tensor> outputs(kNumRequests);
  for (int i = 0; i < kNumRequests; ++i) {
    at(2).AllReduce(
        {.name = absl::StrCat(i), .input = Ones(2), .output = &outputs[i]},
        [&](const absl::Status&) {
          at(2).Shutdown([&](const absl::Status&) {
            reported_at_end.push_back(num_reported);
          });
          ++num_reported;
        });
  }
  environment_.RunAll();
  NamedCall down;
  at(1).Shutdown(down.Set());
  environment_.RunAll();
  EXPECT_THAT(reported_at_end, testing::ElementsAre(3, 3, 3));
}

TEST_P(NamedTensorsTest, ARankThatIsDestroyedLeavesNobodyWaiting) {
  for (int num_works = 0; num_works < 120; num_works += 7) {
    for (int gone = 0; gone < 2; ++gone) {
      Begin();
      auto calls = ReduceOnAll({"a", "b", "c"});
      calls.push_back(Reduce(2, "only one asks for it"));
      environment_.RunSome(num_works);
      job_->network().Cut(gone);
      job_->Destroy(gone);
      environment_.RunAll();
      environment_.Advance(absl::Seconds(30));
      for (const NamedCallPtr& call : calls) {
        EXPECT_TRUE(call->answered()) << num_works << " " << gone;
      }
      EXPECT_FALSE(calls.back()->status.ok());
      EXPECT_FALSE(Reduce(2, "later")->status.ok());
      environment_.RunAll();
    }
  }
}

// Only rank 1 lacks memory; rank 2 may shut down meanwhile. A tensor that
// runs alone may need no memory.
TEST_P(NamedTensorsTest, ARankWithoutMemoryEndsItsTensorsOnAllRanks) {
  int num_without_memory = 0;
  for (int num_works = 0; num_works < 60; num_works += 3) {
    for (const bool shuts_down : {false, true}) {
      SCOPED_TRACE(absl::StrCat(num_works, " works, ", shuts_down));
      bool has_memory = true;
      Begin({}, {.has_memory = &has_memory});
      const auto calls = ReduceOnAll({"a", "b", "c"});
      has_memory = false;
      environment_.RunSome(num_works);
      NamedCall down;
      if (shuts_down) at(2).Shutdown(down.Set());
      environment_.RunAll();
      for (size_t i = 0; i < calls.size(); ++i) {
        const absl::Status& status = calls[i]->status;
        ASSERT_TRUE(calls[i]->answered());
        EXPECT_EQ(status, calls[i % 3]->status);  // Same as rank 0.
        if (absl::IsResourceExhausted(status)) {
          ++num_without_memory;
        } else {
          EXPECT_TRUE(status.ok() || (shuts_down && absl::IsCancelled(status)));
        }
      }
      if (shuts_down) continue;
      has_memory = true;
      ExpectAllMeet({"a", "b", "c"});
    }
  }
  EXPECT_GT(num_without_memory, 0);
}

// Gathers cannot run uncopied here, since that would need too many entries.
TEST_P(NamedTensorsTest, ARankWithoutMemoryEndsItsGatherOnAllRanks) {
  bool has_memory = true;
  Begin({}, {.has_memory = &has_memory, .max_entries = 15});
  for (int round = 0; round < 3; ++round) {
    has_memory = round != 1;
    std::vector<NamedCallPtr> calls;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      calls.push_back(Gather(rank, "rows", Ones(rank, rank)));
      calls.push_back(Call(
          rank, &Coordinator::AllToAll,
          {.name = "exchanged", .input = Ones(rank), .send_rows = {2, 1, 0}}));
    }
    environment_.RunAll();
    for (size_t i = 0; i < calls.size(); ++i) {
      const NamedCallPtr& call = calls[i];
      ASSERT_TRUE(call->answered());
      if (has_memory) {
        ASSERT_THAT(call->status, IsOk());
        if (i % 2 == 1) continue;
        EXPECT_THAT(call->Values(), ElementsAre(2, 3, 3));
      } else {
        EXPECT_THAT(call->status, IsResourceExhausted("none left"));
      }
    }
  }
}

// The callback may destroy what the tensor lies in. Gathers are copied where
// they would need too many entries.
TEST_P(NamedTensorsTest, NoTensorIsKeptWhenItsCallbackRuns) {
  for (const size_t max_entries : {size_t{15}, size_t{1} << 19}) {
    Begin({}, {.max_entries = max_entries});
    std::vector<Tensor> outputs(kNumRanks);
    int num_ended = 0;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      auto token = std::make_shared<int>(rank);
      const std::weak_ptr<int> kept = token;
      Tensor ones = Ones(rank, rank + 1);
      std::byte* const bytes = ones.mutable_data();
      Tensor input = *Tensor::Wrap(ones.dtype(), ones.shape(), bytes,
                                   [ones, token = std::move(token)] {});
      at(rank).AllGather({.name = "rows",
                          .input = std::move(input),
                          .output = &outputs[static_cast<size_t>(rank)]},
                         [&num_ended, kept](const absl::Status& status) {
                           EXPECT_THAT(status, IsOk());
                           EXPECT_TRUE(kept.expired());
                           ++num_ended;
                         });
    }
    environment_.RunAll();
    EXPECT_EQ(num_ended, kNumRanks);
  }
}

TEST_P(NamedTensorsTest, ShutsDownAfterAnErrorAndUnused) {
  Begin();
  Reduce(0, "x");
  Reduce(1, "x", Zeros(DType::kInt32, {2}));
  Reduce(2, "x");
  environment_.RunAll();
  std::vector<NamedCall> down(kNumRanks);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    at(rank).Shutdown(down[rank].Set());
  }
  environment_.RunAll();
  for (const NamedCall& call : down) EXPECT_THAT(call.status, IsOk());
  Begin();
  NamedCall unused;
  at(1).Shutdown(unused.Set());
  environment_.RunAll();
  EXPECT_THAT(unused.status, IsOk());
}

TEST_P(NamedTensorsTest, OneRankNeedsNobody) {
  Begin({}, /*num_ranks=*/1);
  const auto sum = Reduce(0, "x");
  const auto rows = Gather(0, "y", Ones(0));
  environment_.RunAll();
  EXPECT_THAT(sum->status, IsOk());
  EXPECT_THAT(rows->Values(), ElementsAre(1, 1, 1));
}

// --- Several coordinators ----------------------------------------------------

// Several coordinators of four tasks. The first task of each creates its one
// last.
class CoordinatorsTest : public NamedTensorsTest {
 protected:
  static constexpr int kNumTasks = 4;

  using Ranks = std::vector<int>;
  using Coordinators = std::map<int, std::shared_ptr<Coordinator>>;  // By task.

  Coordinators Create(int64_t key, const Ranks& tasks) {
    Coordinators made;
    for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
      auto one = job_->runtime(*task).CreateCoordinator(key, tasks);
      EXPECT_THAT(one, IsOk());
      if (one.ok()) made[*task] = *std::move(one);
    }
    return made;
  }

  absl::Status CreationAt1(int64_t key, const Ranks& tasks) {
    return job_->runtime(1).CreateCoordinator(key, tasks).status();
  }

  NamedCallPtr SumAt(Coordinator& coordinator, int task,
                     const std::string& name) {
    return calls_.emplace_back(CallAllReduce(coordinator, name, Ones(task)));
  }

  void ExpectMeet(const Coordinators& coordinators, int64_t size = 3) {
    std::vector<NamedCallPtr> calls;
    float sum = 0;
    for (const auto& [task, coordinator] : coordinators) {
      calls.push_back(calls_.emplace_back(
          CallAllReduce(*coordinator, "x", Ones(task, size))));
      sum += static_cast<float>(task + 1);
    }
    environment_.RunAll();
    ExpectEnds(calls, IsOk());
    for (const auto& call : calls) EXPECT_THAT(call->Values(), Each(sum));
  }
};

INSTANTIATE_TEST_SUITE_P(Seeds, CoordinatorsTest,
                         testing::Values(Case{1}, Case{2}, Case{3},
                                         Case{1, true}));

// All use the same names at the same time.
TEST_P(CoordinatorsTest, OverlapAndKnowTheirRanksByTask) {
  Begin({}, kNumTasks);
  const std::vector<Ranks> groups = {{3, 1},       {1, 2, 3},    {2},
                                     {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3}};
  std::vector<Coordinators> made;
  for (size_t i = 0; i < groups.size(); ++i) {
    made.push_back(Create(static_cast<int64_t>(i) + 1, groups[i]));
    environment_.RunSome(5);
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<NamedCallPtr>> sums(groups.size());
    auto rows = sums, roots = sums, scattered = sums, exchanged = sums;
    for (int task = 0; task < kNumTasks; ++task) {
      for (size_t i = 0; i < groups.size(); ++i) {
        if (!made[i].contains(task)) continue;
        Coordinator& at = *made[i][task];
        const int64_t size = std::ssize(groups[i]);
        const auto call = [&](NamedMethod method, NamedTensor tensor) {
          return calls_.emplace_back(CallNamed(at, method, std::move(tensor)));
        };
        sums[i].push_back(SumAt(at, task, "x"));
        rows[i].push_back(call(&Coordinator::AllGather,
                               {.name = "y", .input = Ones(task, 1)}));
        roots[i].push_back(call(
            &Coordinator::Broadcast,
            {.name = "z", .input = Ones(task, 7), .root = groups[i].back()}));
        scattered[i].push_back(call(&Coordinator::ReduceScatter,
                                    {.name = "s", .input = Ones(task, size)}));
        exchanged[i].push_back(call(&Coordinator::AllToAll,
                                    {.name = "e", .input = Ones(task, size)}));
      }
      environment_.RunSome(round * 10);
    }
    environment_.RunAll();
    for (size_t i = 0; i < groups.size(); ++i) {
      SCOPED_TRACE(i);
      std::vector<float> values;
      float sum = 0;
      for (const int task : groups[i]) {
        values.push_back(static_cast<float>(task + 1));
        sum += values.back();
      }
      for (const auto& calls :
           {sums[i], rows[i], roots[i], scattered[i], exchanged[i]}) {
        ExpectEnds(calls, IsOk());
      }
      for (const auto& call : sums[i]) EXPECT_THAT(call->Values(), Each(sum));
      for (const auto& call : rows[i]) EXPECT_EQ(call->Values(), values);
      for (const auto& call : roots[i]) {
        EXPECT_THAT(call->Values(), Each(values.back()));
      }
      for (const auto& call : scattered[i]) {
        EXPECT_THAT(call->Values(), ElementsAre(sum));
      }
      for (const auto& call : exchanged[i]) EXPECT_EQ(call->Values(), values);
    }
  }
  ExpectMeet({{0, std::shared_ptr<Coordinator>(&at(0), [](auto*) {})},
              {1, std::shared_ptr<Coordinator>(&at(1), [](auto*) {})},
              {2, std::shared_ptr<Coordinator>(&at(2), [](auto*) {})},
              {3, std::shared_ptr<Coordinator>(&at(3), [](auto*) {})}});
}

TEST_P(CoordinatorsTest, NameTasksInWhatTheySay) {
  std::vector<StalledTensor> reports;
  Begin({.stalled = [&](const auto& tensor) { reports.push_back(tensor); }},
        kNumTasks);
  auto made = Create(7, {3, 1, 2});
  const auto expect_on_all = [&](NamedMethod method, const auto& tensor_of,
                                 const std::string& text) {
    std::vector<NamedCallPtr> calls;
    for (const auto& [task, at] : made) {
      calls.push_back(
          calls_.emplace_back(CallNamed(*at, method, tensor_of(task))));
    }
    environment_.RunAll();
    ExpectEnds(calls, IsFailedPrecondition(text));
  };
  expect_on_all(
      &Coordinator::AllReduce,
      [](int task) {
        return NamedTensor{.name = "x", .input = Ones(0, 5 + task % 2)};
      },
      "ranks [3, 1] / [2]");
  expect_on_all(
      &Coordinator::Broadcast,
      [](int) { return NamedTensor{.name = "x", .input = Ones(0)}; },
      "root rank 0 of 3 ranks: ranks [3, 1, 2]");
  Joins joins(kNumTasks);
  joins.Join(*made[1], 1);
  EXPECT_THAT(SumAt(*made[1], 1, "x")->status,
              IsFailedPrecondition("rank 1 has joined"));
  environment_.RunAll();
  std::vector<NamedCallPtr> calls;
  for (const int task : {2, 3}) {
    calls.push_back(calls_.emplace_back(
        CallNamed(*made[task], &Coordinator::Broadcast,
                  {.name = "x", .input = Ones(0), .root = 1})));
  }
  environment_.RunAll();
  ExpectEnds(calls, IsFailedPrecondition("joined: ranks [1]"));
  SumAt(*made[2], 2, "slow");
  EXPECT_THAT(SumAt(*made[2], 2, "slow")->status, IsAlreadyExists("rank 2"));
  environment_.RunAll();
  environment_.Advance(absl::Seconds(61));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_THAT(reports[0].present, ElementsAre(2));
  EXPECT_THAT(reports[0].missing, ElementsAre(3));
  SumAt(*made[3], 3, "slow");
  for (const int task : {3, 2}) {
    environment_.RunAll();
    joins.Join(*made[task], task);
  }
  environment_.RunAll();
  EXPECT_EQ(joins.num_ended(), 3);
  EXPECT_EQ(*joins.result(1), 2);
  NamedCall down;
  made[1]->Shutdown(down.Set());
  environment_.RunAll();
  EXPECT_THAT(SumAt(*made[3], 3, "x")->status, IsCancelled("task 1"));
}

TEST_P(CoordinatorsTest, RefuseRanksThatCannotBeOrDiffer) {
  Begin({}, kNumTasks);
  for (const auto& [key, tasks, text] :
       std::vector<std::tuple<int64_t, Ranks, std::string>>{
           {0, {0, 1}, "the key of a coordinator is 0"},
           {0, {}, "the key of a coordinator is 0"},
           {-1, {0, 1}, "is -1"},
           {65537, {0, 1}, "is 65537; wanted 1 to 65536"},
           {1, {}, "task 1 (host1:1) is none of its ranks []"},
           {1, {0, 2}, "task 1 (host1:1) is none of its ranks [0, 2]"},
           {1, {1, 1}, "task 1 is listed twice"},
           {1, {1, 4}, "task 4 is listed twice, or none of the 4 tasks"},
           {1, {-1, 1}, "task -1"}}) {
    EXPECT_THAT(CreationAt1(key, tasks), IsInvalidArgument(text));
  }
  auto made = Create(1, {1, 2});
  EXPECT_THAT(CreationAt1(1, {1, 2}), IsAlreadyExists("key 1"));
  ExpectMeet(made);
  made.clear();
  environment_.RunAll();
  EXPECT_THAT(CreationAt1(1, {1, 2}), IsAlreadyExists("key 1"));

  // A rank that destroys its own unused, though another one waits.
  auto waits = *job_->runtime(1).CreateCoordinator(5, {1, 2});
  const auto waiting = SumAt(*waits, 1, "x");
  job_->runtime(2).CreateCoordinator(5, {1, 2}).IgnoreError();
  environment_.RunAll();
  EXPECT_THAT(waiting->status, IsCancelled("task 2", "was destroyed"));

  for (const auto& [key, others] :
       {std::pair<int64_t, Ranks>(2, {1, 2, 3}), {3, {1, 3, 2}}}) {
    const Ranks tasks = key == 2 ? Ranks{1, 2} : Ranks{1, 2, 3};
    const auto one = *job_->runtime(1).CreateCoordinator(key, tasks);
    const auto other = *job_->runtime(2).CreateCoordinator(key, others);
    SumAt(*one, 1, "x");
    const auto refused = SumAt(*other, 2, "x");
    environment_.RunAll();
    EXPECT_THAT(refused->status,
                IsFailedPrecondition("task 2 (host2:1) gave ranks [1, ",
                                     "task 1 (host1:1) gave [1, 2"));
  }
  const auto early = *job_->runtime(2).CreateCoordinator(4, {1, 2});
  const auto first = SumAt(*early, 2, "x");
  environment_.RunAll();
  const auto differs = IsFailedPrecondition(
      "task 1 (host1:1) gave ranks [1, 2, 3]; "
      "task 2 (host2:1) gave [1, 2]");
  EXPECT_THAT(CreationAt1(4, {1, 2, 3}), differs);
  environment_.RunAll();
  EXPECT_THAT(first->status, differs);
}

TEST_P(CoordinatorsTest, ARankMayBeSomeAheadOfTheOneThatDecides) {
  Begin({}, kNumTasks);
  std::vector<std::shared_ptr<Coordinator>> made;
  std::vector<NamedCallPtr> calls;
  for (int64_t key = 1; key <= 17; ++key) {
    made.push_back(*job_->runtime(2).CreateCoordinator(key, {0, 2}));
    calls.push_back(SumAt(*made.back(), 2, "x"));
    environment_.RunAll();
    EXPECT_EQ(calls.back()->answered(), key == 17);
  }
  EXPECT_THAT(calls.back()->status,
              IsResourceExhausted("task 2 (host2:1) uses 16 coordinators"));
  made.push_back(*job_->runtime(0).CreateCoordinator(1, {0, 2}));
  const auto other = SumAt(*made.back(), 0, "x");
  environment_.RunAll();
  ExpectEnds({calls[0], other}, IsOk());
  made.push_back(*job_->runtime(2).CreateCoordinator(18, {0, 2}));
  const auto later = SumAt(*made.back(), 2, "x");
  environment_.RunAll();
  EXPECT_FALSE(later->answered());
}

// Whoever is lost, first or last of the ranks, before or after it was used.
TEST_P(CoordinatorsTest, SurvivorsGoOnWithAnother) {
  for (int lost = 0; lost < kNumTasks; ++lost) {
    for (const bool is_used : {false, true}) {
      SCOPED_TRACE(absl::StrCat(lost, " ", is_used));
      Begin({}, kNumTasks);
      Ranks others;
      for (int task = kNumTasks - 1; task >= 0; --task) {
        if (task != lost) others.push_back(task);
      }
      auto all = Create(1, {3, 2, 1, 0});
      auto living = Create(2, others);
      if (is_used) {
        ExpectMeet(all);
        ExpectMeet(living);
      }
      std::vector<NamedCallPtr> calls;
      for (const int task : others) {
        calls.push_back(SumAt(*all[task], task, "y"));
        calls.push_back(Reduce(task, "y"));
      }
      environment_.RunAll();
      job_->network().Cut(lost);
      job_->Destroy(lost);
      all.erase(lost);
      environment_.RunAll();
      environment_.Advance(absl::Seconds(30));
      for (const auto& call : calls) {
        EXPECT_FALSE(call->status.ok());
        EXPECT_THAT(call->status.message(),
                    HasSubstr(absl::StrCat("task ", lost)));
      }
      ExpectMeet(Create(3, others));
      if (!is_used) continue;
      ExpectMeet(living);
      ExpectMeet(living, 1001);
    }
  }
}

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

  StoppableEnvironment environment_;
  NamedTensorJob job_{kNumRanks, environment_.get(), {}};
};

TEST_F(NamedTensorsConcurrencyTest, AllThreadsOfAllRanksMeet) {
  ExpectAllThreadsMeet(RanksOf(job_));
}

TEST_F(NamedTensorsConcurrencyTest, AShutdownAmongThreadsLeavesNobodyWaiting) {
  const auto ran =
      ExpectAShutdownLeavesNoThreadWaiting(RanksOf(job_), /*by=*/1);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    EXPECT_EQ(ran.at(rank), ran.at(1));
  }
}

TEST_F(NamedTensorsConcurrencyTest, ChainsOfRequestsNeedNoStack) {
  ExpectChainsEnd(RanksOf(job_));
}

}  // namespace named_tensors_test
}  // namespace tutti
