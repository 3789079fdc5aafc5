// Tests of reductions by MPI: in MPI's order, by each merge op and then by the
// final op. Part of the program of mpi_collectives_test_rank.cc.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

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
      Call by_mpi{.request = RequestOf("MpiReduce", AllReduce(), dtype, shape),
                  .input = Filled(dtype, shape, rank())};
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
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
        .input = Filled(DType::kInt32, shape, rank())};
    call.request.merge_op = *MergeOp::Custom(CustomSum("add"));
    RunAndCheck(call, [&](int64_t i) { return SumOf(i); });

    const TensorShape blocks = TensorShape::Vector(count * size());
    Call scatter{.request = RequestOf("MpiReduceScatter", ReduceScatter(),
                                      DType::kInt32, blocks),
                 .input = Filled(DType::kInt32, blocks, rank())};
    scatter.request.merge_op = call.request.merge_op;
    RunAndCheck(scatter, [&](int64_t i) { return SumOf(i + count * rank()); });
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
    Call reduce{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
        .input = Filled(DType::kInt32, shape, rank())};
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

}  // namespace
}  // namespace tutti
