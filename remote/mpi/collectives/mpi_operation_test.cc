#include "remote/mpi/collectives/mpi_operation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/mpi/collectives/mpi_communicators.h"
#include "remote/mpi/messages/mpi_note.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace mpi_operation_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kGroupSize = 4;
constexpr int64_t kTooMany = int64_t{1} << 31;

absl::Status CheckOf(CollectiveType type, int64_t num_elements) {
  return MpiOperation::Check(
      {.type = type, .shape = TensorShape::Vector(num_elements)}, kGroupSize);
}

auto IsTooMany(int rank, int64_t num_elements) {
  return IsInvalidArgument(
      absl::StrCat("rank ", rank, " has ", num_elements, " elements"),
      "choose another implementation");
}

TEST(MpiOperationTest, BlocksHaveNoMoreElementsThanAnIntCounts) {
  static_assert(kTooMany - 1 == std::numeric_limits<int>::max());
  for (const CollectiveType type :
       {CollectiveType::kReduceScatter, CollectiveType::kAllToAll}) {
    EXPECT_THAT(CheckOf(type, kTooMany - kGroupSize), IsOk());
    EXPECT_THAT(CheckOf(type, kTooMany), IsTooMany(0, kTooMany));
  }
  const CollectiveType gather = CollectiveType::kAllGather;
  EXPECT_THAT(CheckOf(gather, kTooMany / kGroupSize - 1), IsOk());
  EXPECT_THAT(CheckOf(gather, kTooMany / kGroupSize), IsTooMany(0, kTooMany));
}

// Only rank 2 receives as many.
TEST(MpiOperationTest, NoMemberHasMoreWhereTheyDiffer) {
  CollInstanceParams instance{.type = CollectiveType::kAllToAll,
                              .shape = *TensorShape::Create({4, 1 << 29}),
                              .rows = {0, 1, 1, 0,  //
                                       0, 1, 1, 1,  //
                                       1, 0, 1, 0,  //
                                       1, 0, 0, 1}};
  EXPECT_THAT(MpiOperation::Check(instance, kGroupSize), IsOk());
  instance.rows[4 * 3 + 2] = 1;
  EXPECT_THAT(MpiOperation::Check(instance, kGroupSize),
              IsTooMany(2, kTooMany));
}

TEST(MpiOperationTest, WhatGoesInPiecesHasAnyNumberOfElements) {
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kReduce,
        CollectiveType::kBroadcast}) {
    EXPECT_THAT(CheckOf(type, int64_t{1} << 40), IsOk());
  }
}

TEST(MpiOperationTest, WhatItDoesNotDoIsRefused) {
  EXPECT_THAT(CheckOf(CollectiveType::kPermute, 1),
              IsInvalidArgument("permute"));
}

// Operation of one member, on tensors of uint8.
class Member {
 public:
  Member(CollInstanceParams instance, int group_size, int64_t num_bytes) {
    CollGroupParams group;
    group.members.resize(static_cast<size_t>(group_size));
    params_.group = std::make_shared<const CollGroupParams>(std::move(group));
    instance.dtype = DType::kUint8;
    instance.shape = TensorShape::Vector(num_bytes);
    params_.instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
    context_.params = &params_;
    context_.input = Zeros(num_bytes);
    context_.output = Zeros(num_bytes);
    operation_ = std::make_unique<MpiOperation>(context_);
  }

  MpiOperation& operation() { return *operation_; }
  std::string output() const {
    return {reinterpret_cast<const char*>(context_.output.data()),
            context_.output.size_bytes()};
  }

 private:
  static Tensor Zeros(int64_t num_bytes) {
    Tensor made =
        *Tensor::Allocate(DType::kUint8, TensorShape::Vector(num_bytes));
    std::fill_n(made.mutable_data(), made.size_bytes(), std::byte{0});
    return made;
  }

  CollectiveParams params_;
  CollectiveContext context_;
  std::unique_ptr<MpiOperation> operation_;
};

size_t SmallBytes(CollInstanceParams instance, int group_size,
                  int64_t num_bytes) {
  return Member(std::move(instance), group_size, num_bytes)
      .operation()
      .small_input()
      .size();
}

TEST(MpiOperationTest, SmallReductionsNeedNoMpi) {
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kReduce}) {
    EXPECT_EQ(SmallBytes({.type = type}, 2, 1), 1u);
    EXPECT_EQ(SmallBytes({.type = type}, 2, 4096), 4096u);
    EXPECT_EQ(SmallBytes({.type = type}, 1, 4097), 0u);
    // Total: 8 KiB.
    EXPECT_EQ(SmallBytes({.type = type}, 8, 1024), 1024u);
    EXPECT_EQ(SmallBytes({.type = type}, 8, 1025), 0u);
  }
}

TEST(MpiOperationTest, OtherSmallCollectivesAndMergeOpsDo) {
  for (const CollectiveType type :
       {CollectiveType::kAllGather, CollectiveType::kBroadcast,
        CollectiveType::kReduceScatter, CollectiveType::kAllToAll}) {
    EXPECT_EQ(SmallBytes({.type = type}, 2, 2), 0u);
  }
  CollInstanceParams custom;
  custom.merge_op =
      *MergeOp::Custom({.name = "nothing",
                        .commutative = true,
                        .apply = [](DType, const void*, const void*, void*,
                                    int64_t) { return absl::OkStatus(); }});
  EXPECT_EQ(SmallBytes(custom, 2, 2), 0u);
}

TEST(MpiOperationTest, SmallInputsAreMergedAndTheFinalOpComesLast) {
  CollInstanceParams instance;
  instance.final_op = FinalOp::DivideByGroupSize();
  Member member(instance, 3, 2);
  const auto merged =
      member.operation().Merge({"\1\2", "\3\4", absl::string_view("\5\0", 2)});
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(*merged, "\x9\x6");
  EXPECT_THAT(member.operation().FinishMerged(*merged), IsOk());
  EXPECT_EQ(member.output(), "\x3\x2");
}

// Inputs of another process may be wrong.
TEST(MpiOperationTest, SmallInputsOfAnotherLengthAreAnError) {
  Member member(CollInstanceParams(), 3, 2);
  EXPECT_THAT(member.operation().Merge({"ab", "abc", "ab"}).status(),
              IsInternal("rank 1 sent 3 bytes, not 2"));
  EXPECT_THAT(member.operation().FinishMerged("abc"),
              IsInternal("rank 0 sent 3 bytes, not 2"));
  EXPECT_EQ(member.output(), std::string(2, '\0'));
}

// Without MPI no communicator is made.
TEST(MpiCommunicatorsTest, AGroupThatHasNoneEndsAtOnce) {
  std::vector<MpiNote::Kind> sent;
  std::vector<ExecKey> freed;
  MpiCommunicators communicators(
      {.send = [&](int /*task*/,
                   const MpiNote& note) { sent.push_back(note.kind); },
       .on_free = [&](const ExecKey& key) { freed.push_back(key); }});
  const ExecKey key{.generation = 1, .group = 2};
  communicators.Release(key);
  EXPECT_THAT(freed, ElementsAre(key));
  EXPECT_THAT(sent, IsEmpty());
}

}  // namespace mpi_operation_test
}  // namespace tutti
