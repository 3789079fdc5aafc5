// Tests of the communicators by which MPI reduces: when they exist, and when
// all are freed. Part of the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tests/processes/mpi_thread.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace {

// Communicators of groups, in this process; MPI's thread makes and frees them.
std::set<MPI_Comm> communicators;
std::atomic<int> num_communicators = 0;

}  // namespace

int MPI_Comm_create_group(MPI_Comm all, MPI_Group group, int tag,
                          MPI_Comm* made) {
  tutti::CheckMpiThread("MPI_Comm_create_group");
  const int code = PMPI_Comm_create_group(all, group, tag, made);
  communicators.insert(*made);
  num_communicators = static_cast<int>(communicators.size());
  return code;
}

int MPI_Comm_free(MPI_Comm* communicator) {
  tutti::CheckMpiThread("MPI_Comm_free");
  communicators.erase(*communicator);
  num_communicators = static_cast<int>(communicators.size());
  return PMPI_Comm_free(communicator);
}

namespace tutti {
namespace {

// A group's communicators are freed with the group, some time after the last
// step has released it. The ranks therefore exchange how many are left.
class MpiCommunicatorsTest : public MpiCollectivesTest {
 protected:
  // Largest number of communicators of any rank.
  int MostCommunicators() {
    Call call{
        .request = RequestOf(size() == 1 ? "" : "RingReduce", AllReduce(),
                             DType::kInt32, TensorShape::Vector(1)),
        .input = *Tensor::Allocate(DType::kInt32, TensorShape::Vector(1))};
    call.request.group_key = 7;
    call.request.merge_op = ReductionKind::kMax;
    Set(call.input, 0, num_communicators);
    Start(call, /*step=*/1000);
    EXPECT_THAT(call.Wait(), IsOk());
    int most = 0;
    std::memcpy(&most, call.output.data(), sizeof(most));
    return most;
  }

  void ExpectAllAreFreed() {
    constexpr int kMostLooks = 1000;
    int look = 0;
    while (look < kMostLooks && MostCommunicators() > 0) ++look;
    EXPECT_LT(look, kMostLooks) << num_communicators << " are left here";
  }
};

TEST_F(MpiCommunicatorsTest, AGroupFormedAgainHasAnotherAndAllAreFreed) {
  ExpectAllAreFreed();  // From earlier tests.
  const TensorShape shape = TensorShape::Vector(kMany);
  const auto request =
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  for (int64_t step = 1; step <= 4; ++step) {
    Call call{.request = request,
              .input = Filled(DType::kInt32, shape, rank())};
    Start(call, step);
    ASSERT_THAT(call.Wait(), IsOk());
    Check(call.output, [&](int64_t i) { return SumOf(i); });
    // Waits until all ranks have ended the reduction.
    Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
    barrier.request.group_key = 7;
    Start(barrier, step);
    ASSERT_THAT(barrier.Wait(), IsOk());
    runtime_->ReformGroup(request.group_key, absl::AbortedError("again"));
  }
  EXPECT_EQ(MostCommunicators(), 4);
  for (int64_t step = 1; step <= 4; ++step) {
    runtime_->manager().Cleanup(step);
  }
  ExpectAllAreFreed();
}

TEST_F(MpiCommunicatorsTest, WhoLeavesKeepsNone) {
  ExpectAllAreFreed();  // From earlier tests.
  const TensorShape shape = TensorShape::Vector(kMany);
  for (int round = 0; round < 5; ++round) {
    // Runs one after the other, so that earlier messages have arrived.
    for (int i = 0; i < 3; ++i) {
      Call call = CallOf("MpiReduce", AllReduce(), DType::kInt32, shape);
      RunAndCheck(call, [&](int64_t i) { return SumOf(i); });
    }
    EXPECT_EQ(num_communicators, 1);
    Leave();
    SetUp();
  }
  ExpectAllAreFreed();
}

TEST_F(MpiCommunicatorsTest, SmallReductionsMakeNone) {
  ExpectAllAreFreed();  // From earlier tests.
  const TensorShape shape = TensorShape::Vector(kFew);
  for (const bool to_root : {false, true}) {
    Call call = CallOf("MpiReduce", AllReduce(), DType::kInt32, shape);
    if (to_root) call.request.op = ReduceToRoot{0};
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    if (to_root && rank() != 0) continue;
    Check(call.output, [&](int64_t i) { return SumOf(i); });
  }
  EXPECT_EQ(MostCommunicators(), 0);
}

}  // namespace
}  // namespace tutti
