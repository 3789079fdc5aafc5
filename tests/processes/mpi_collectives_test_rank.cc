// Tests of the results of collectives that MPI runs. Each process of a job runs
// them, in step with the others: mpirun_test.py starts the processes. The
// argument "funneled" allows MPI calls from one thread only; with "adopted" the
// program initialises MPI itself. Other sources of this program test the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/matrix.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tests/processes/mpi_task.h"
#include "tests/processes/mpi_thread.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

TEST_F(MpiCollectivesTest, AllReduceGivesAllTheReductionOfEveryDType) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(absl::StrCat(Name(dtype), " ", count));
        const TensorShape shape = TensorShape::Vector(count);
        Call call = CallOf("MpiReduce", AllReduce(), dtype, shape);
        if (in_place) call.output = call.input;
        RunAndCheck(call, [&](int64_t i) { return SumOf(i); });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, ReduceGivesTheRootTheReduction) {
  for (int root = 0; root < size(); ++root) {
    const TensorShape shape = TensorShape::Vector(1001);
    Call call = CallOf("MpiReduce", ReduceToRoot{root}, DType::kInt64, shape);
    if (root % 2 == 1 && rank() == root) call.output = call.input;
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    if (rank() == root) Check(call.output, [&](int64_t i) { return SumOf(i); });
  }
}

TEST_F(MpiCollectivesTest, ScansGiveEachTheReductionOfTheRanksBefore) {
  const auto sum_of = [](int num_ranks, int64_t i) {
    int sum = 0;
    for (int r = 0; r < num_ranks; ++r) sum += Value(r, i);
    return sum;
  };
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(absl::StrCat(Name(dtype), " ", count));
        const TensorShape shape = TensorShape::Vector(count);
        Call scan = CallOf("MpiScan", Scan(), dtype, shape);
        Call exscan = CallOf("MpiScan", Exscan(), dtype, shape);
        if (in_place && rank() % 2 == 1) {
          scan.output = scan.input;
          exscan.output = exscan.input;
        }
        RunAndCheck(scan, [&](int64_t i) { return sum_of(rank() + 1, i); });
        Start(exscan);
        ASSERT_THAT(exscan.Wait(), IsOk());
        if (rank() == 0) continue;  // It has no output.
        Check(exscan.output, [&](int64_t i) { return sum_of(rank(), i); });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, ScansTakeAMergeOpOfTheCaller) {
  for (const CollectiveOp& op :
       {CollectiveOp(Scan()), CollectiveOp(Exscan())}) {
    Call call = CallOf("MpiScan", op, DType::kInt32, TensorShape::Vector(1001));
    call.request.merge_op = *MergeOp::Custom(CustomSum("mine"));
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    const int num_reduced = NumReduced(TypeOf(op), rank(), size());
    if (num_reduced == 0) continue;
    Check(call.output, [&](int64_t i) {
      int sum = 0;
      for (int r = 0; r < num_reduced; ++r) sum += Value(r, i);
      return sum;
    });
  }
}

TEST_F(MpiCollectivesTest, ReduceScatterGivesEachItsBlock) {
  for (const DType dtype : {DType::kFloat16, DType::kInt32, DType::kFloat64}) {
    for (const int64_t block : kCounts) {
      for (const bool in_place : {false, true}) {
        const TensorShape shape = TensorShape::Vector(block * size());
        Call call = CallOf("MpiReduceScatter", ReduceScatter(), dtype, shape);
        if (in_place) {
          call.output = *call.input.Slice(block * rank(), block * (rank() + 1));
        }
        RunAndCheck(call, [&](int64_t i) { return SumOf(i + block * rank()); });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, ReduceScatterGivesEachAnyNumberOfRows) {
  std::vector<int64_t> rows;
  for (int r = 0; r < size(); ++r) rows.push_back((r * 3 + 2) % 7);
  rows.back() = 0;
  const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  const int64_t begin =
      std::accumulate(rows.begin(), rows.begin() + rank(), int64_t{0});
  for (const bool in_place : {false, true}) {
    Call call =
        CallOf("MpiReduceScatter", ReduceScatter{.uneven = true, .rows = rows},
               DType::kInt32, *TensorShape::Create({total, 11}));
    if (in_place) {
      call.output = *call.input.Slice(begin, begin + rows[rank()]);
    }
    RunAndCheck(call, [&](int64_t i) { return SumOf(i + 11 * begin); });
    EXPECT_EQ(call.output.num_elements(), 11 * rows[rank()]);
  }
}

TEST_F(MpiCollectivesTest, GatherGivesAllEveryBlock) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        const TensorShape shape = TensorShape::Vector(count);
        Call call = CallOf("MpiGather", AllGather(), dtype, shape);
        if (in_place) {
          call.output =
              *Tensor::Allocate(dtype, TensorShape::Vector(count * size()));
          Tensor own = *call.output.Slice(count * rank(), count * (rank() + 1));
          std::copy_n(call.input.data(), call.input.size_bytes(),
                      own.mutable_data());
          call.input = own;
        }
        RunAndCheck(call, [&](int64_t i) {
          const int value = Value(static_cast<int>(i / count), i % count);
          return dtype == DType::kBool ? value % 2 : value;
        });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, GatherTakesAnyNumberOfRowsOfEach) {
  const auto rows_of = [](int rank) { return (rank * 3) % 7; };
  const TensorShape shape = *TensorShape::Create({rows_of(rank()), 11});
  Call call =
      CallOf("MpiGather", AllGather{.uneven = true}, DType::kInt32, shape);
  std::vector<int> wanted;
  for (int r = 0; r < size(); ++r) {
    for (int64_t i = 0; i < rows_of(r) * 11; ++i) wanted.push_back(Value(r, i));
  }
  RunAndCheck(call, [&](int64_t i) { return wanted[i]; });
  EXPECT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
}

TEST_F(MpiCollectivesTest, BroadcastGivesAllWhatAnySourceHas) {
  for (int source = 0; source < size(); ++source) {
    const TensorShape shape = TensorShape::Vector(1001);
    Call call{.request = RequestOf("MpiBroadcast", Broadcast{rank() == source},
                                   DType::kInt32, shape)};
    if (rank() == source) call.input = Filled(DType::kInt32, shape, rank());
    RunAndCheck(call, [&](int64_t i) { return Value(source, i); });
  }
}

TEST_F(MpiCollectivesTest, BroadcastGivesAllWhatTheSourceHas) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : kCounts) {
      const int source = static_cast<int>(count) % size();
      const bool is_source = rank() == source;
      const TensorShape shape = TensorShape::Vector(count);
      Call call{.request = RequestOf("MpiBroadcast", Broadcast{is_source},
                                     dtype, shape)};
      if (is_source) call.input = Filled(dtype, shape, rank());
      if (is_source && count % 2 == 1) call.output = call.input;
      RunAndCheck(call, [&](int64_t i) {
        const int value = Value(source, i);
        return dtype == DType::kBool ? value % 2 : value;
      });
    }
  }
}

TEST_F(MpiCollectivesTest, AllToAllGivesEachItsBlockOfEach) {
  for (const int64_t block : kCounts) {
    for (const bool in_place : {false, true}) {
      const TensorShape shape = TensorShape::Vector(block * size());
      Call call = CallOf("MpiAllToAll", AllToAll(), DType::kInt8, shape);
      if (in_place) call.output = call.input;
      RunAndCheck(call, [&](int64_t i) {
        return Value(static_cast<int>(i / block), i % block + block * rank());
      });
    }
  }
}

TEST_F(MpiCollectivesTest, AllToAllTakesAnyNumberOfRowsForEach) {
  // Number of rows that rank a sends to rank b.
  const auto rows_of = [](int a, int b) { return (a * 2 + b * 3) % 5; };
  AllToAll op;
  for (int b = 0; b < size(); ++b) op.send_rows.push_back(rows_of(rank(), b));
  const int64_t rows =
      std::accumulate(op.send_rows.begin(), op.send_rows.end(), int64_t{0});
  const TensorShape shape = *TensorShape::Create({rows, 3});
  Call call = CallOf("MpiAllToAll", op, DType::kInt64, shape);
  std::vector<int> wanted;
  for (int a = 0; a < size(); ++a) {
    int64_t begin = 0;
    for (int b = 0; b < rank(); ++b) begin += rows_of(a, b) * 3;
    for (int64_t i = 0; i < rows_of(a, rank()) * 3; ++i) {
      wanted.push_back(Value(a, begin + i));
    }
  }
  RunAndCheck(call, [&](int64_t i) { return wanted[i]; });
  EXPECT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
}

TEST_F(MpiCollectivesTest, EveryAlgorithmGivesTheResultOfEveryCollective) {
  EXPECT_THAT(RunMatrix(*runtime_, MpiTestEnvironment()), IsOk());
}

TEST_F(MpiCollectivesTest, EveryAlgorithmServesSeveralDevicesOfEachProcess) {
  if (size() > 3) return;
  Leave();
  Create(/*devices_per_task=*/2);
  EXPECT_THAT(RunMatrix(*runtime_, MpiTestEnvironment()), IsOk());
}

TEST_F(MpiCollectivesTest, ANameThatCannotServeIsAnErrorThatListsWhatCan) {
  const TensorShape shape = TensorShape::Vector(4);
  Call call = CallOf("MpiGather", AllReduce(), DType::kInt32, shape);
  Start(call);
  EXPECT_THAT(call.Wait(),
              IsInvalidArgument("MpiGather does not do all_reduce; "
                                "these can serve: ",
                                "MpiReduce"));
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc >= 2 && argv[1] == std::string("funneled")) {
    tutti::GrantFunneledOnly();
  }
  return tutti::RunTestsUnderMpi(&argc, argv);
}
