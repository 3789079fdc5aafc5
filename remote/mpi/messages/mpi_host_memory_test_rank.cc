// Tests of memory shared by the processes of a job. Each process runs them, in
// step with the others; mpirun_test.py starts them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include "remote/mpi/messages/mpi_host_memory.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace {

constexpr size_t kBytesOfEach = 64;

class MpiHostMemoryTest : public testing::Test {
 protected:
  MpiHostMemoryTest() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  std::byte& OfRank(int rank) { return memory_.bytes()[kBytesOfEach * rank]; }

  int rank_ = 0;
  int size_ = 0;
  MpiHostMemory memory_;
};

TEST_F(MpiHostMemoryTest, AllSeeWhatEachWrites) {
  ASSERT_THAT(memory_.Share(MPI_COMM_WORLD, kBytesOfEach * size_), IsOk());
  ASSERT_NE(memory_.bytes(), nullptr);
  EXPECT_EQ(OfRank(rank_), std::byte{0});
  OfRank(rank_) = static_cast<std::byte>(rank_ + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int rank = 0; rank < size_; ++rank) {
    EXPECT_EQ(OfRank(rank), static_cast<std::byte>(rank + 1));
  }
}

// Rank 1 wants more than there is.
TEST_F(MpiHostMemoryTest, IfOneCannotHaveItNobodyHas) {
  if (size_ == 1) return;
  const size_t num_bytes = rank_ == 1 ? 2 * kBytesOfEach : kBytesOfEach;
  ASSERT_THAT(memory_.Share(MPI_COMM_WORLD, num_bytes), IsOk());
  EXPECT_EQ(memory_.bytes(), nullptr);
}

TEST_F(MpiHostMemoryTest, IfItCannotBeMadeNobodyHasIt) {
  const size_t num_bytes = rank_ == 0 ? SIZE_MAX : kBytesOfEach;
  ASSERT_THAT(memory_.Share(MPI_COMM_WORLD, num_bytes), IsOk());
  EXPECT_EQ(memory_.bytes(), nullptr);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
