#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_copies_test {

using ::testing::Combine;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Values;

// Tests NcclGather, NcclBroadcast, NcclReduceScatter, NcclAllToAll and
// NcclPermute.

// Part of a member in a collective.
struct Part {
  CollectiveRequest request;
  Bytes input;     // Empty: no input.
  Bytes expected;  // Empty: no output.
  bool has_output = true;

  // Offset of the input in the output's memory, or of the output in the
  // input's. -1: separate memory.
  int64_t input_at = -1, output_at = -1;
};

class CopiesTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int size() const { return tasks_.size(); }

  // Runs the parts of all ranks as the next instance.
  void Run(const std::function<Part(int rank)>& part_of) {
    ++key_;
    std::vector<Part> parts;
    std::vector<Tensor> outputs(size()), inputs(size());
    for (int rank = 0; rank < size(); ++rank) parts.push_back(part_of(rank));
    for (int rank = 0; rank < size(); ++rank) {
      Part& part = parts[rank];
      part.request.instance_key = key_;
      const size_t element = SizeOf(part.request.dtype);
      const auto vector_of = [&](const Bytes& bytes) {
        return TensorShape::Vector(
            static_cast<int64_t>(bytes.size() / element));
      };
      const auto make = [&](const Bytes& bytes) {
        return tasks_.Allocate(rank, part.request.dtype, vector_of(bytes));
      };
      // Makes a view of `all`; the view keeps `all` alive.
      const auto view = [&](const Tensor& all, int64_t at, const Bytes& bytes) {
        Tensor whole = all;
        return *Tensor::Wrap(part.request.dtype, vector_of(bytes),
                             whole.mutable_data() + at * element, [whole] {});
      };
      if (part.input_at >= 0) {
        outputs[rank] = make(part.expected);
        inputs[rank] = view(outputs[rank], part.input_at, part.input);
      } else {
        inputs[rank] = make(part.input);
        if (part.output_at >= 0) {
          outputs[rank] = view(inputs[rank], part.output_at, part.expected);
        }
      }
      tasks_.Write(rank, inputs[rank], part.input);
      tasks_.Call(rank, part.request, inputs[rank],
                  part.has_output ? &outputs[rank] : nullptr);
    }
    tasks_.RunAll();
    for (int rank = 0; rank < size(); ++rank) {
      ASSERT_THAT(tasks_.ended()[rank], Optional(IsOk()));
      if (!parts[rank].has_output) continue;
      ASSERT_EQ(tasks_.Read(rank, outputs[rank]), parts[rank].expected) << rank;
    }
  }

  Bytes Random(DType dtype, int64_t num_elements, int rank) const {
    return RandomElements(dtype, num_elements, 1000 * key_ + rank);
  }

  FakeNcclTasks tasks_{{.num_tasks = std::get<0>(GetParam()),
                        .gpus_per_task = std::get<1>(GetParam())}};
  int64_t key_ = 0;
};
INSTANTIATE_TEST_SUITE_P(TasksAndGpus, CopiesTest,
                         Combine(Values(1, 2, 3), Values(1, 2, 3)));

void Append(const Bytes& more, Bytes* all) {
  all->insert(all->end(), more.begin(), more.end());
}

TEST_P(CopiesTest, EveryDTypeIsGathered) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t num_elements : {0, 1, 7}) {
      for (const bool in_place : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
          Part part = {
              .request = tasks_.Request(AllGather{}, dtype, num_elements),
              .input = Random(dtype, num_elements, rank)};
          for (int r = 0; r < size(); ++r) {
            Append(Random(dtype, num_elements, r), &part.expected);
          }
          if (in_place) part.input_at = rank * num_elements;
          return part;
        }));
      }
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, PartsOfDifferentSizesAreGathered) {
  for (const bool in_place : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
      const auto rows_of = [](int r) { return r == 1 ? 0 : 2 * r + 1; };
      Part part = {.request = tasks_.Request(AllGather{.uneven = true},
                                             DType::kInt32, rows_of(rank)),
                   .input = Random(DType::kInt32, rows_of(rank), rank)};
      part.request.impl_details.implementation = "NcclGather";
      int64_t before = 0;
      for (int r = 0; r < size(); ++r) {
        Append(Random(DType::kInt32, rows_of(r), r), &part.expected);
        if (r < rank) before += rows_of(r);
      }
      if (in_place && rows_of(rank) > 0) part.input_at = before;
      return part;
    }));
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, EveryRootGathers) {
  for (int root = 0; root < size(); ++root) {
    for (const bool in_place : {false, true}) {
      ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
        Part part = {.request = tasks_.Request(GatherToRoot{.root = root},
                                               DType::kFloat16, 3),
                     .input = Random(DType::kFloat16, 3, rank),
                     .has_output = rank == root};
        part.request.impl_details.implementation = "NcclGather";
        for (int r = 0; r < size() && rank == root; ++r) {
          Append(Random(DType::kFloat16, 3, r), &part.expected);
        }
        if (in_place && rank == root) part.input_at = 3 * rank;
        return part;
      }));
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, EverySourceIsBroadcast) {
  for (int source = 0; source < size(); ++source) {
    for (const int64_t num_elements : {0, 5}) {
      for (const bool in_place : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
          Part part = {
              .request = tasks_.Request(Broadcast{.is_source = rank == source},
                                        DType::kBool, num_elements),
              .expected = Random(DType::kBool, num_elements, source)};
          part.request.impl_details.implementation = "NcclBroadcast";
          if (rank == source) part.input = part.expected;
          if (rank == source && in_place) part.input_at = 0;
          return part;
        }));
      }
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, SumsAreScattered) {
  for (const int64_t num_elements : {0, 1, 5}) {
    for (const bool is_average : {false, true}) {
      for (const bool in_place : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
          Part part = {.request = tasks_.Request(ReduceScatter{}, DType::kUint8,
                                                 num_elements * size())};
          if (is_average) {
            part.request.final_op = FinalOp::DivideByGroupSize();
          }
          for (int i = 0; i < num_elements * size(); ++i) {
            part.input.push_back(static_cast<uint8_t>(i + rank));
          }
          for (int64_t i = 0; i < num_elements; ++i) {
            const auto n = static_cast<int64_t>(size());
            const auto sum = static_cast<uint8_t>(
                n * (rank * num_elements + i) + n * (n - 1) / 2);
            part.expected.push_back(is_average ? sum / n : sum);
          }
          if (in_place) part.output_at = rank * num_elements;
          return part;
        }));
      }
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, EveryoneSendsToEveryone) {
  for (const int64_t block : {0, 1, 3}) {
    for (const bool in_place : {false, true}) {
      ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
        const auto bytes_of = [](const Bytes& all, int64_t begin, int64_t n) {
          return Bytes(all.begin() + begin, all.begin() + begin + n);
        };
        Part part = {
            .request = tasks_.Request(AllToAll{}, DType::kInt8, block * size()),
            .input = Random(DType::kInt8, block * size(), rank)};
        for (int r = 0; r < size(); ++r) {
          Append(bytes_of(Random(DType::kInt8, block * size(), r), block * rank,
                          block),
                 &part.expected);
        }
        if (in_place) part.input_at = 0;
        return part;
      }));
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, EveryPairMayHaveASizeOfItsOwn) {
  // Block from `from` to `to`.
  const auto block = [](int from, int to) {
    return Bytes(static_cast<size_t>((from + 2 * to) % 3),
                 static_cast<uint8_t>(16 * from + to));
  };
  ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
    AllToAll op;
    Part part;
    for (int r = 0; r < size(); ++r) {
      op.send_rows.push_back(static_cast<int64_t>(block(rank, r).size()));
      Append(block(rank, r), &part.input);
      Append(block(r, rank), &part.expected);
    }
    part.request = tasks_.Request(op, DType::kUint8,
                                  static_cast<int64_t>(part.input.size()));
    part.request.impl_details.implementation = "NcclAllToAll";
    return part;
  }));
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

TEST_P(CopiesTest, EveryRankGetsWhatIsSentToIt) {
  // Targets: around a ring; in pairs, with one rank unpaired; to itself.
  const std::vector<std::function<int(int)>> targets = {
      [&](int rank) { return (rank + 1) % size(); },
      [&](int rank) { return size() - 1 - rank; },
      [](int rank) { return rank; }};
  for (const auto& target : targets) {
    for (const bool in_place : {false, true}) {
      ASSERT_NO_FATAL_FAILURE(Run([&](int rank) {
        Permute op;
        int from = 0;
        for (int r = 0; r < size(); ++r) {
          op.permutation.push_back(target(r));
          if (target(r) == rank) from = r;
        }
        Part part = {.request = tasks_.Request(op, DType::kFloat64, 3),
                     .input = Random(DType::kFloat64, 3, rank),
                     .expected = Random(DType::kFloat64, 3, from)};
        part.request.impl_details.implementation = "NcclPermute";
        if (in_place) part.input_at = 0;
        return part;
      }));
    }
  }
  EXPECT_THAT(tasks_.Remains(), IsEmpty());
}

// Tests groups whose devices lack NCCL, or devices that NCCL cannot serve.
// Another implementation runs. A request that names NCCL's gets the reason.

constexpr int64_t kBlock = 3;

// Reduce-scatters of blocks of uint8, for which no other implementation uses a
// single pass of GPUs, or all-reduces of them.
class Sums {
 public:
  explicit Sums(FakeNcclTasks::Options options,
                CollectiveOp op = ReduceScatter{})
      : tasks_(options), outputs_(tasks_.size()) {
    request_ =
        tasks_.Request(std::move(op), DType::kUint8, kBlock * tasks_.size());
  }

  FakeNcclTasks& tasks() { return tasks_; }
  CollectiveRequest& request() { return request_; }
  int num_keys() { return tasks_.network().counts().ids; }
  int num_launches() { return tasks_.network().counts().launches; }

  void CallAll(const std::string& implementation) {
    request_.impl_details.implementation = implementation;
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      const Tensor input = tasks_.Allocate(rank, DType::kUint8, request_.shape);
      tasks_.Write(
          rank, input,
          Bytes(kBlock * tasks_.size(), static_cast<uint8_t>(rank + 1)));
      outputs_[rank] = Tensor();
      tasks_.Call(rank, request_, input, &outputs_[rank]);
    }
    for (int i = 0; i < 20; ++i) tasks_.RunAll();
  }

  void ExpectSums(const std::string& implementation = "") {
    const int sum = tasks_.size() * (tasks_.size() + 1) / 2;
    ExpectAll(static_cast<uint8_t>(sum), implementation);
  }

  void ExpectAll(uint8_t result, const std::string& implementation = "") {
    CallAll(implementation);
    ASSERT_THAT(tasks_.TakeCalls(), Each(Optional(IsOk())));
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      EXPECT_THAT(tasks_.Read(rank, outputs_[rank]), Each(result));
    }
  }

  // Expects that all members are refused with the alternatives, and nothing is
  // left.
  void ExpectRefused(const std::string& implementation,
                     const std::string& why_not) {
    CallAll(implementation);
    EXPECT_THAT(
        tasks_.TakeCalls(),
        Each(Optional(IsInvalidArgument(absl::StrCat(
            ": ", implementation, " ", why_not, "; these can serve: ")))));
    EXPECT_EQ(tasks_.network().counts().inits, 0);
  }

  std::vector<std::string> Remains() {
    outputs_.clear();
    return tasks_.Remains();
  }

 private:
  FakeNcclTasks tasks_;
  CollectiveRequest request_;
  std::vector<Tensor> outputs_;
};

TEST(NcclDevicesTest, WhereNothingIsLackingNcclServes) {
  Sums sums({.gpus_per_task = 3});
  sums.ExpectSums();
  EXPECT_EQ(sums.num_keys(), 1);
  EXPECT_EQ(sums.num_launches(), 1);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WithoutNcclOthersServe) {
  Sums sums({.gpus_per_task = 3, .tasks_with_nccl = 0});
  sums.ExpectSums();
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WithTwoDevicesOnOneGpuOthersServe) {
  Sums sums({.gpus_per_task = 2, .devices_per_gpu = 2});
  sums.ExpectSums();
  EXPECT_EQ(sums.num_keys(), 0);
  EXPECT_EQ(sums.num_launches(), 0);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WhereTheLeaderMakesNoKeyOthersServe) {
  Sums sums({.gpus_per_task = 2});
  sums.tasks().network().FailNextId(absl::InternalError("no socket"));
  sums.ExpectSums();
  EXPECT_EQ(sums.num_launches(), 0);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WhoLacksNcclIsNamed) {
  Sums sums({.num_tasks = 2, .tasks_with_nccl = 1});
  const std::string why_not =
      "needs NCCL, which rank 2 (/job:localhost/replica:0/task:1/device:GPU:0) "
      "and 1 more do not have";
  sums.ExpectRefused("NcclReduceScatter", why_not);
  Sums all_reduces({.num_tasks = 2, .tasks_with_nccl = 1}, AllReduce{});
  all_reduces.ExpectRefused("NcclThenRing", why_not);
  EXPECT_EQ(sums.num_keys() + all_reduces.num_keys(), 0);
}

TEST(NcclDevicesTest, WhoAreOnOneGpuAreNamed) {
  Sums sums({.gpus_per_task = 2, .devices_per_gpu = 2});
  sums.ExpectRefused(
      "NcclReduceScatter",
      "needs each member on a GPU of its own, but ranks 0 and 1 "
      "(/job:localhost/replica:0/task:0/device:GPU:0 and "
      "/job:localhost/replica:0/task:0/device:GPU:1) are on one");
}

TEST(NcclDevicesTest, WhoOfTwoProcessesAreOnOneGpuAreNamed) {
  Sums sums({.num_tasks = 2, .shares_gpus = true});
  sums.ExpectRefused(
      "NcclReduceScatter",
      "needs each member on a GPU of its own, but ranks 0 and 2 "
      "(/job:localhost/replica:0/task:0/device:GPU:0 and "
      "/job:localhost/replica:0/task:1/device:GPU:0) are on one");
}

TEST(NcclDevicesTest, WhyTheLeaderMadeNoKeyIsSaid) {
  Sums sums({});
  sums.tasks().network().FailNextId(absl::InternalError("no socket"));
  sums.ExpectRefused("NcclReduceScatter",
                     "needs a key that the group's leader has not made: "
                     "no socket");
}

TEST(NcclDevicesTest, HybridsNeedNothingOfWhoIsAloneInItsProcess) {
  Sums sums({.num_tasks = 2,
             .gpus_per_task = 1,
             .shares_gpus = true,
             .tasks_with_nccl = 0},
            AllReduce{});
  sums.ExpectSums("NcclThenRing");
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, HybridsShareGpusWithOtherProcesses) {
  Sums sums({.num_tasks = 2, .shares_gpus = true}, AllReduce{});
  sums.ExpectSums("NcclThenRing");
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, BitOpsAreLeftToOthers) {
  for (const auto& [kind, result] : {std::pair(ReductionKind::kBand, 1 & 2),
                                     {ReductionKind::kBor, 1 | 2},
                                     {ReductionKind::kBxor, 1 ^ 2}}) {
    for (const int num_tasks : {1, 2}) {
      Sums sums({.num_tasks = num_tasks, .gpus_per_task = 2 / num_tasks},
                AllReduce{});
      sums.request().merge_op = kind;
      sums.request().instance_key = 1;
      sums.ExpectRefused("NcclReduce",
                         absl::StrCat("has no merge op \"", Name(kind),
                                      "\", which NCCL lacks"));
      sums.request().instance_key = 2;
      sums.ExpectAll(static_cast<uint8_t>(result));
      EXPECT_EQ(sums.num_launches(), 0);
      EXPECT_THAT(sums.Remains(), IsEmpty());
    }
  }
}

TEST(NcclDevicesTest, FunctionsOfTheHostAreRefused) {
  const auto apply = [](auto...) { return absl::OkStatus(); };
  Sums merges({.gpus_per_task = 2}, AllReduce{});
  merges.request().merge_op =
      *MergeOp::Custom({.name = "mine", .commutative = true, .apply = apply});
  merges.ExpectRefused("NcclReduce",
                       "cannot run the merge op \"mine\", a function of the "
                       "host, on a GPU");
  Sums ends({.gpus_per_task = 2}, AllReduce{});
  ends.request().final_op = *FinalOp::Custom({.name = "end", .apply = apply});
  ends.ExpectRefused("NcclReduce",
                     "cannot run the final op \"end\", a function of the "
                     "host, on a GPU");
}

}  // namespace nccl_copies_test
}  // namespace tutti
