// Tests of operations in small pieces. Each process of a job runs them, in step
// with the others; mpirun_test.py starts them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "remote/mpi/collectives/mpi_communicators.h"
#include "remote/mpi/collectives/mpi_merge.h"
#include "remote/mpi/collectives/mpi_operation.h"
#include "remote/mpi/messages/mpi_ring.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace {

// Open MPI's variable for the algorithm of MPI_Iallreduce. Use after
// MPI_T_init_thread().
class AlgorithmVariable {
 public:
  AlgorithmVariable() {
    int index = 0, count = 0;
    MPI_T_cvar_get_index("coll_libnbc_iallreduce_algorithm", &index);
    MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count);
  }
  ~AlgorithmVariable() { MPI_T_cvar_handle_free(&handle_); }

  int Get() const {
    int value = -1;
    MPI_T_cvar_read(handle_, &value);
    return value;
  }
  void Set(int value) { MPI_T_cvar_write(handle_, &value); }

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
};

// Values of the variable.
constexpr int kAsMpiChooses = 0;
constexpr int kRing = 1;
constexpr int kBinomial = 2;

// Values at the calls of MPI_Iallreduce.
std::vector<int> algorithms;

}  // namespace

int MPI_Iallreduce(const void* from, void* into, int count, MPI_Datatype type,
                   MPI_Op op, MPI_Comm communicator, MPI_Request* request) {
  algorithms.push_back(AlgorithmVariable().Get());
  return PMPI_Iallreduce(from, into, count, type, op, communicator, request);
}

namespace tutti {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPieceBytes = 1024;
constexpr int64_t kPieceElements = kPieceBytes / sizeof(int32_t);
constexpr int64_t kCounts[] = {0,
                               1,
                               kPieceElements - 1,
                               kPieceElements,
                               kPieceElements + 1,
                               10 * kPieceElements,
                               10 * kPieceElements + 1};

// Returns element i of rank r.
int32_t Value(int rank, int64_t i) {
  return static_cast<int32_t>(rank * 1000 + i % 997);
}

Tensor Zeros(int64_t count) {
  Tensor tensor = *Tensor::Allocate(DType::kInt32, TensorShape::Vector(count));
  std::fill_n(tensor.mutable_data(), tensor.size_bytes(), std::byte{0});
  return tensor;
}

// Returns the number of pieces of at most `most` units; an empty tensor has one
// piece.
size_t NumPieces(int64_t count, int64_t most) {
  return static_cast<size_t>(std::max<int64_t>(1, (count + most - 1) / most));
}

class MpiOperationTest : public testing::Test {
 protected:
  MpiOperationTest() {
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CollGroupParams group;
    group.members.resize(static_cast<size_t>(size));
    params_.group = std::make_shared<const CollGroupParams>(std::move(group));
    params_.default_rank = rank_;
  }

  int rank() const { return rank_; }
  int size() const { return params_.group->size(); }

  Tensor Own(int64_t count) const {
    Tensor tensor = Zeros(count);
    auto* values = reinterpret_cast<int32_t*>(tensor.mutable_data());
    for (int64_t i = 0; i < count; ++i) values[i] = Value(rank(), i);
    return tensor;
  }

  // Runs the operation among all processes. Returns its number of MPI calls.
  size_t Run(CollInstanceParams instance, const Tensor& input,
             const Tensor& output, int64_t piece_bytes = kPieceBytes,
             bool any_in_place = false, MpiRing* ring = nullptr) {
    algorithms.clear();
    instance.dtype = DType::kInt32;
    EXPECT_THAT(MpiOperation::Check(instance, size()), IsOk());
    params_.instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
    CollectiveContext context;
    context.params = &params_;
    context.input = input;
    context.output = output;
    MpiOperation operation(context, piece_bytes);
    EXPECT_THAT(operation.Allocate(), IsOk());
    MpiMerges merges;
    std::vector<MPI_Request> requests =
        operation.Start(MPI_COMM_WORLD, &merges, any_in_place, ring);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(),
                MPI_STATUSES_IGNORE);
    finished_ = operation.Finish();
    EXPECT_EQ(finished_.ok(), !instance_fails_) << finished_;
    return requests.size();
  }

  // Returns the error of such a reduction by `op`.
  absl::Status FailureOf(CollInstanceParams instance, const MergeOp& op,
                         int64_t count, MpiRing* ring) {
    instance.shape = TensorShape::Vector(count);
    instance.merge_op = op;
    instance_fails_ = true;
    Run(std::move(instance), Own(count), Zeros(count),
        MpiOperation::kPieceBytes, /*any_in_place=*/false, ring);
    return finished_;
  }

  // `wanted` maps the index of an element to its value.
  template <typename Wanted>
  static void Check(const Tensor& output, Wanted wanted) {
    for (int64_t i = 0; i < output.num_elements(); ++i) {
      int32_t value = 0;
      std::memcpy(&value, output.data() + i * sizeof(value), sizeof(value));
      ASSERT_EQ(value, wanted(i)) << i << " of " << output.num_elements();
    }
  }

  int32_t SumOf(int64_t i) const {
    int32_t sum = 0;
    for (int r = 0; r < size(); ++r) sum += Value(r, i);
    return sum;
  }

 private:
  int rank_ = 0;
  CollectiveParams params_;
  bool instance_fails_ = false;
  absl::Status finished_;  // Result of the last run.
};

TEST_F(MpiOperationTest, AnAllReduceInPiecesIsThatOfTheWhole) {
  for (const int64_t count : kCounts) {
    for (const bool any_in_place : {false, true}) {
      SCOPED_TRACE(absl::StrCat(count, any_in_place ? " in place" : ""));
      const Tensor input = Own(count);
      const Tensor output = any_in_place && rank() == 0 ? input : Zeros(count);
      EXPECT_EQ(Run({.shape = input.shape()}, input, output, kPieceBytes,
                    any_in_place),
                NumPieces(count, kPieceElements));
      Check(output, [&](int64_t i) { return SumOf(i); });
    }
  }
}

TEST_F(MpiOperationTest, AReduceInPiecesIsThatOfTheWhole) {
  for (const int64_t count : kCounts) {
    for (int root = 0; root < size(); ++root) {
      const Tensor input = Own(count);
      const Tensor output = rank() == root ? Zeros(count) : Tensor();
      EXPECT_EQ(Run({.type = CollectiveType::kReduce,
                     .shape = input.shape(),
                     .root = root},
                    input, output),
                NumPieces(count, kPieceElements));
      if (rank() == root) Check(output, [&](int64_t i) { return SumOf(i); });
    }
  }
}

TEST_F(MpiOperationTest, ScansInPiecesAreThoseOfTheWhole) {
  for (const CollectiveType type :
       {CollectiveType::kScan, CollectiveType::kExscan}) {
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        const Tensor input = Own(count);
        const int num_reduced = NumReduced(type, rank(), size());
        const Tensor output = num_reduced == 0 ? Tensor()
                              : in_place       ? input
                                               : Zeros(count);
        EXPECT_EQ(Run({.type = type, .shape = input.shape()}, input, output,
                      kPieceBytes, in_place),
                  NumPieces(count, kPieceElements));
        if (num_reduced == 0) continue;
        Check(output, [&](int64_t i) {
          int32_t sum = 0;
          for (int r = 0; r < num_reduced; ++r) sum += Value(r, i);
          return sum;
        });
      }
    }
  }
}

TEST_F(MpiOperationTest, ABroadcastInPiecesIsThatOfTheWhole) {
  for (const int64_t count : kCounts) {
    for (int root = 0; root < size(); ++root) {
      const Tensor input = rank() == root ? Own(count) : Tensor();
      const Tensor output = Zeros(count);
      EXPECT_EQ(Run({.type = CollectiveType::kBroadcast,
                     .shape = output.shape(),
                     .root = root},
                    input, output),
                NumPieces(count, kPieceElements));
      Check(output, [&](int64_t i) { return Value(root, i); });
    }
  }
}

MergeOp Adding() {
  return *MergeOp::Custom(
      {.name = "add",
       .commutative = true,
       .apply = [](DType dtype, const void* left, const void* right, void* into,
                   int64_t num_elements) {
         return MergeOp().Apply(dtype, left, right, into, num_elements);
       }});
}

// Returns the least number of elements with which an all-reduce is a ring.
int64_t LeastOfRing(int size) {
  int64_t count = 1;
  while (size > 1 && !MpiRing::IsFaster(size, count, count * 4)) ++count;
  return count;
}

TEST_F(MpiOperationTest, LargeAllReducesAreRingsAndTheSameSums) {
  if (size() == 1) return;
  MpiRing ring;
  ASSERT_TRUE(ring.CanSet());
  const int64_t least = LeastOfRing(size());
  for (const int64_t count : {least - 1, least, least + 1, 3 * least + 2}) {
    for (const bool any_in_place : {false, true}) {
      SCOPED_TRACE(absl::StrCat(count, any_in_place ? " in place" : ""));
      const Tensor input = Own(count);
      const Tensor output =
          any_in_place && rank() % 2 == 0 ? input : Zeros(count);
      Run({.shape = input.shape()}, input, output, MpiOperation::kPieceBytes,
          any_in_place, &ring);
      EXPECT_THAT(algorithms,
                  ElementsAre(count < least ? kAsMpiChooses : kRing));
      EXPECT_EQ(AlgorithmVariable().Get(), kAsMpiChooses);
      Check(output, [&](int64_t i) { return SumOf(i); });
    }
  }
}

TEST_F(MpiOperationTest, EachPieceIsARingIfItIsLarge) {
  if (size() == 1) return;
  MpiRing ring;
  ASSERT_TRUE(ring.CanSet());
  const int64_t least = LeastOfRing(size());
  const Tensor input = Own(2 * least + 1);
  const Tensor output = Zeros(2 * least + 1);
  Run({.shape = input.shape()}, input, output, 4 * least,
      /*any_in_place=*/false, &ring);
  EXPECT_THAT(algorithms, ElementsAre(kRing, kRing, kAsMpiChooses));
  Check(output, [&](int64_t i) { return SumOf(i); });
}

TEST_F(MpiOperationTest, WhatTheUserHasChosenIsNotSet) {
  EXPECT_TRUE(MpiRing().CanSet());
  AlgorithmVariable().Set(kBinomial);
  EXPECT_FALSE(MpiRing().CanSet());
  EXPECT_EQ(AlgorithmVariable().Get(), kBinomial);
  AlgorithmVariable().Set(kAsMpiChooses);
}

TEST_F(MpiOperationTest, GroupsHaveRingsWhereAllMembersCanSetThem) {
  std::vector<int> tasks(static_cast<size_t>(size()));
  std::iota(tasks.begin(), tasks.end(), 0);
  for (const bool all_can : {true, false}) {
    if (!all_can && rank() == 0) AlgorithmVariable().Set(kBinomial);
    MpiRing ring;
    MpiCommunicators communicators(
        {.this_task = rank(), .all = MPI_COMM_WORLD, .ring = &ring});
    const ExecKey key{.group = 1};
    communicators.Make(key, tasks);
    EXPECT_EQ(communicators.FindRing(key), all_can ? &ring : nullptr);
    EXPECT_EQ(communicators.FindRing({.group = 2}), nullptr);
    AlgorithmVariable().Set(kAsMpiChooses);
  }
}

TEST_F(MpiOperationTest, LargeAllReducesWithoutARingRunAsMpiChooses) {
  const Tensor input = Own(LeastOfRing(8));
  const Tensor output = Zeros(LeastOfRing(8));
  Run({.shape = input.shape()}, input, output);
  EXPECT_THAT(algorithms, Each(kAsMpiChooses));
  Check(output, [&](int64_t i) { return SumOf(i); });
}

// Pieces contain whole packs.
TEST_F(MpiOperationTest, ACustomMergeOpMayBeRunInPieces) {
  constexpr int64_t kPack = MpiMerge::kElementsPerPack;
  constexpr int64_t kPacks = 2;  // Packs per piece.
  const MergeOp add = Adding();
  const auto piece_bytes =
      static_cast<int64_t>(kPacks * MpiMerge::PackBytes(DType::kInt32));
  for (const int64_t count : {int64_t{0}, int64_t{1}, kPacks * kPack,
                              kPacks * kPack + 1, 7 * kPack - 1}) {
    const Tensor input = Own(count);
    const Tensor output = Zeros(count);
    EXPECT_EQ(Run({.shape = input.shape(), .merge_op = add}, input, output,
                  piece_bytes),
              NumPieces(count, kPacks * kPack));
    Check(output, [&](int64_t i) { return SumOf(i); });
  }
}

// Returns rank 0's text.
std::string OfFirst(std::string text) {
  text.resize(size_t{1} << 16);
  MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0,
            MPI_COMM_WORLD);
  return text.substr(0, text.find('\0'));
}

// Several merges fail, each with a different error.
TEST_F(MpiOperationTest, AFailedMergeIsTheSameErrorOnAll) {
  if (size() == 1) return;
  MpiRing ring;
  ASSERT_TRUE(ring.CanSet());
  for (const size_t length : {size_t{0}, size_t{10}, size_t{10'000}}) {
    const absl::Status failure(
        rank() % 2 == 0 ? absl::StatusCode::kDataLoss
                        : absl::StatusCode::kOutOfRange,
        absl::StrCat("rank ", rank(), std::string(length, '!')));
    const MergeOp op = *MergeOp::Custom(
        {.name = "failing",
         .commutative = true,
         .apply = [failure](DType, const void*, const void*, void*, int64_t) {
           return failure;
         }});
    for (const int64_t count : {int64_t{1}, 3 * LeastOfRing(size())}) {
      for (MpiRing* how : {static_cast<MpiRing*>(nullptr), &ring}) {
        SCOPED_TRACE(absl::StrCat(length, " ", count, " ", how != nullptr));
        const std::string error = FailureOf({}, op, count, how).ToString();
        EXPECT_THAT(error, HasSubstr(": rank "));
        EXPECT_EQ(error, OfFirst(error));
      }
    }
  }
}

// A single pack is no ring: it has no part for each member.
TEST_F(MpiOperationTest, ACustomMergeOpMayBeRunAsARing) {
  MpiRing ring;
  ASSERT_TRUE(ring.CanSet());
  const int64_t large = 3 * LeastOfRing(size());
  for (const int64_t count : {int64_t{5}, large}) {
    const Tensor input = Own(count);
    const Tensor output = Zeros(count);
    Run({.shape = input.shape(), .merge_op = Adding()}, input, output,
        MpiOperation::kPieceBytes, /*any_in_place=*/false, &ring);
    const bool as_ring = count == large && size() > 1;
    EXPECT_THAT(algorithms, ElementsAre(as_ring ? kRing : kAsMpiChooses));
    Check(output, [&](int64_t i) { return SumOf(i); });
  }
}

TEST_F(MpiOperationTest, CollectivesOfBlocksAreOneCallOfAnySize) {
  constexpr int64_t kBlock = 10 * kPieceElements + 1;
  const int64_t whole = kBlock * size();
  const Tensor part = Zeros(kBlock);
  const Tensor all = Zeros(whole);
  EXPECT_EQ(Run({.type = CollectiveType::kAllGather,
                 .shape = TensorShape::Vector(kBlock)},
                Own(kBlock), all),
            1u);
  Check(all, [&](int64_t i) {
    return Value(static_cast<int>(i / kBlock), i % kBlock);
  });
  EXPECT_EQ(Run({.type = CollectiveType::kReduceScatter, .shape = all.shape()},
                Own(whole), part),
            1u);
  Check(part, [&](int64_t i) { return SumOf(rank() * kBlock + i); });
  EXPECT_EQ(Run({.type = CollectiveType::kAllToAll, .shape = all.shape()},
                Own(whole), all),
            1u);
  Check(all, [&](int64_t i) {
    return Value(static_cast<int>(i / kBlock), rank() * kBlock + i % kBlock);
  });
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  int level = 0;
  MPI_Query_thread(&level);
  MPI_T_init_thread(level, &level);
  const int result = RUN_ALL_TESTS();
  MPI_T_finalize();
  MPI_Finalize();
  return result;
}
