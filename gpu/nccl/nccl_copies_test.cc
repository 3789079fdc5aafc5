#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

// Tests NcclGather, NcclBroadcast, NcclReduceScatter, NcclAllToAll and
// NcclPermute.

namespace tutti {
namespace nccl_copies_test {

using ::testing::Combine;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Values;

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

}  // namespace nccl_copies_test
}  // namespace tutti
