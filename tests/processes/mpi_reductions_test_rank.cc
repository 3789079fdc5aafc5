// Tests of reductions by MPI: in MPI's order, by each merge op and then by the
// final op; and of gathers in which members pass the rows of all. Part of the
// program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace mpi_reductions_test_rank {

auto IsBroken() {
  return StatusIs(absl::StatusCode::kDataLoss,
                  "op broken failed: it is broken");
}

// MPI adds up in its own order, but the order is the same for all ranks.
TEST_F(MpiCollectivesTest, ALargeAllReduceGivesAllTheSameBits) {
  std::mt19937 random(static_cast<unsigned>(rank()));
  for (const int64_t count : {int64_t{5001}, int64_t{65'537} * size()}) {
    const TensorShape shape = TensorShape::Vector(count);
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kFloat32, shape),
        .input = *Tensor::Allocate(DType::kFloat32, shape)};
    for (int64_t i = 0; i < count; ++i) {
      StoreFloating(DType::kFloat32,
                    std::ldexp(1.0 / (1 + random() % 1000), i % 7),
                    call.input.mutable_data() + 4 * i);
    }
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    Call of_first{.request = RequestOf("MpiBroadcast", Broadcast{rank() == 0},
                                       DType::kFloat32, shape)};
    if (rank() == 0) of_first.input = call.output;
    Start(of_first);
    ASSERT_THAT(of_first.Wait(), IsOk());
    EXPECT_EQ(std::memcmp(call.output.data(), of_first.output.data(),
                          call.output.size_bytes()),
              0);
  }
}

TEST_F(MpiCollectivesTest, EveryReductionIsThatOfTheOtherImplementations) {
  for (const ReductionKind kind : kAllReductionKinds) {
    for (size_t i = 0; i < 2 * kAllDTypes.size(); ++i) {
      const DType dtype = kAllDTypes[i / 2];
      const int64_t count = i % 2 == 0 ? 77 : 4 * kMany;
      if (!CheckSupported(kind, dtype).ok()) continue;
      SCOPED_TRACE(absl::StrCat(Name(kind), " ", Name(dtype), " ", count));
      const TensorShape shape = TensorShape::Vector(count);
      Call by_mpi = CallOf("MpiReduce", AllReduce(), dtype, shape);
      by_mpi.request.merge_op = kind;
      Call other{.request = RequestOf("RingReduce", AllReduce(), dtype, shape),
                 .input = by_mpi.input};
      other.request.merge_op = kind;
      Start(by_mpi);
      if (size() == 1) other.request.impl_details.implementation.clear();
      Start(other);
      ASSERT_THAT(by_mpi.Wait(), IsOk());
      ASSERT_THAT(other.Wait(), IsOk());
      EXPECT_EQ(std::memcmp(by_mpi.output.data(), other.output.data(),
                            other.output.size_bytes()),
                0);
    }
  }
}

TEST_F(MpiCollectivesTest, TheFinalOpComesLastHoweverManyElements) {
  for (const int64_t count : {3, 100'000}) {
    const TensorShape shape = TensorShape::Vector(count);
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kFloat32, shape),
        .input = *Tensor::Allocate(DType::kFloat32, shape)};
    for (int64_t i = 0; i < count; ++i) Set(call.input, i, 2 * rank() + 1);
    call.request.final_op = FinalOp::DivideByGroupSize();
    RunAndCheck(call, [&](int64_t) { return size(); });
  }
}

TEST_F(MpiCollectivesTest, CustomMergeOpsAreRunByMpi) {
  for (const int64_t count : kCounts) {
    const TensorShape shape = TensorShape::Vector(count);
    Call call = CallOf("MpiReduce", AllReduce(), DType::kInt32, shape);
    call.request.merge_op = *MergeOp::Custom(CustomSum("add"));
    RunAndCheck(call, [&](int64_t i) { return SumOf(i); });

    const TensorShape blocks = TensorShape::Vector(count * size());
    Call scatter =
        CallOf("MpiReduceScatter", ReduceScatter(), DType::kInt32, blocks);
    scatter.request.merge_op = call.request.merge_op;
    RunAndCheck(scatter, [&](int64_t i) { return SumOf(i + count * rank()); });

    // Balanced: the first ranks have one element more, if any.
    const int64_t total = count * size() + (size() - 1);
    Call uneven = CallOf("MpiReduceScatter", ReduceScatter{.uneven = true},
                         DType::kInt32, TensorShape::Vector(total));
    uneven.request.merge_op = call.request.merge_op;
    const int64_t begin = (count + 1) * rank();
    RunAndCheck(uneven, [&](int64_t i) { return SumOf(begin + i); });
  }
}

// The failing rank may vary: a single rank merges in a small group, several
// ranks in a larger one.
TEST_F(MpiCollectivesTest, AMergeOpThatFailsEndsTheExecutionOnItsRanks) {
  if (size() == 1) return;  // Nothing to merge.
  CustomMergeOp op = CustomSum("broken");
  op.apply = [](DType, const void*, const void*, void*, int64_t) {
    return absl::DataLossError("it is broken");
  };
  const MergeOp broken = *MergeOp::Custom(std::move(op));
  for (const int64_t count : {int64_t{1}, kMany, 40 * kMany}) {
    SCOPED_TRACE(count);
    const TensorShape shape = TensorShape::Vector(count * size());
    Call reduce = CallOf("MpiReduce", AllReduce(), DType::kInt32, shape);
    reduce.request.merge_op = broken;
    Call scatter{.request = RequestOf("MpiReduceScatter", ReduceScatter(),
                                      DType::kInt32, shape),
                 .input = reduce.input};
    scatter.request.merge_op = broken;
    Start(reduce);
    Start(scatter);
    EXPECT_THAT(reduce.Wait(), IsBroken());
    EXPECT_THAT(scatter.Wait(), IsBroken());
  }
}

// Gathers of one instance; each execution passes the rows of all members.
class MpiGivenRowsTest : public MpiCollectivesTest {
 protected:
  void Begin(const char* implementation) {
    request_ =
        RequestOf(implementation, AllGather{}, DType::kInt32, TensorShape());
  }

  void Start(Call& call, const std::vector<int64_t>& rows) {
    request_.op = AllGather{.uneven = true, .rows = rows};
    request_.shape = *TensorShape::Create({rows[rank()], 11});
    call.request = request_;
    call.input = Filled(DType::kInt32, request_.shape, rank());
    MpiCollectivesTest::Start(call);
  }

  void RunAndCheck(const std::vector<int64_t>& rows) {
    std::vector<int> wanted;
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < rows[r] * 11; ++i) wanted.push_back(Value(r, i));
    }
    Call call;
    Start(call, rows);
    ASSERT_THAT(call.Wait(), IsOk());
    ASSERT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
    Check(call.output, [&](int64_t i) { return wanted[i]; });
  }

  // Runs a gather in which the last rank has 2 rows, while the others expect
  // `of_last` rows from it.
  absl::Status RunWithOthersFor(int64_t of_last) {
    std::vector<int64_t> rows(size(), 1);
    rows.back() = rank() == size() - 1 ? 2 : of_last;
    Call call;
    Start(call, rows);
    return call.Wait();
  }

 private:
  CollectiveRequest request_;
};

TEST_F(MpiGivenRowsTest, MayChangeWithEachExecutionByMpiAndByMessages) {
  for (const char* implementation : {"MpiGather", "RingGather"}) {
    Begin(implementation);
    for (int execution = 0; execution < 5; ++execution) {
      std::vector<int64_t> rows;
      for (int r = 0; r < size(); ++r) {
        rows.push_back((r + execution) % 3 + execution / 4);
      }
      RunAndCheck(rows);
    }
  }
}

// Covers the case that a rank expects no rows, while another rank sends some.
TEST_F(MpiGivenRowsTest, WhereTheyDifferItEndsAndTheNextOneRuns) {
  if (size() == 1) return;
  for (const auto& [implementation, text] :
       {std::pair{"MpiGather", "gives other rows than rank 0"},
        {"RingGather", "bytes"}}) {
    Begin(implementation);
    for (const int64_t of_last : {3, 0}) {
      EXPECT_THAT(RunWithOthersFor(of_last), IsInvalidArgument(text))
          << implementation << " " << of_last;
    }
    EXPECT_THAT(RunWithOthersFor(2), IsOk());
  }
}

}  // namespace mpi_reductions_test_rank
}  // namespace tutti
