#include "named_tensors/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace request_check_test {

using ::testing::HasSubstr;

TensorRequest Gather(std::vector<int64_t> dims) {
  return {.name = "x",
          .type = CollectiveType::kAllGather,
          .shape = *TensorShape::Create(dims)};
}

TEST(RequestCheckTest, RanksMayDifferInTheRowsOfAGather) {
  EXPECT_THAT(CheckRequestsAgree({Gather({0, 2}), Gather({7, 2})}), IsOk());
  EXPECT_THAT(CheckRequestsAgree({}), IsOk());
}

TEST(RequestCheckTest, TypesAreComparedBeforeOperationsBeforeShapes) {
  TensorRequest one = Gather({2});
  TensorRequest other = Gather({2, 2});
  other.type = CollectiveType::kAllReduce;
  EXPECT_THAT(CheckRequestsAgree({one, other}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("mismatched operations: one rank did an "
                                 "allgather, but another rank did an "
                                 "allreduce: ranks [0] / [1]")));
  other.dtype = DType::kInt8;
  EXPECT_THAT(CheckRequestsAgree({one, other}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("mismatched data types")));
}

TEST(RequestCheckTest, NamesAllValuesAndTheirRanks) {
  TensorRequest request{.name = "x", .merge_op = "sum"};
  std::vector<TensorRequest> by_rank(40, request);
  by_rank[3].dtype = by_rank[5].dtype = DType::kInt8;
  by_rank[4].dtype = DType::kInt64;
  EXPECT_EQ(
      CheckRequestsAgree(by_rank).message(),
      "tensor \"x\": mismatched data types: one rank had type float32, "
      "but another rank had type int8: ranks [0, 1, 2, 6, 7, 8, 9, 10 and "
      "29 more] / [3, 5]; a further one had type int64: ranks [4]");
}

TEST(RequestCheckTest, RowsThatAreTooManyTogetherAreRefused) {
  const int64_t half = int64_t{1} << 62;
  EXPECT_THAT(
      CheckRequestsAgree({Gather({half}), Gather({half})}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("too many")));
  EXPECT_THAT(
      CheckRequestsAgree({Gather({half / 4, 2}), Gather({half / 4, 2}),
                          Gather({half / 4, 2}), Gather({half / 4, 2})}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("too many")));
}

TEST(RequestCheckTest, ALongNameIsShownInPart) {
  EXPECT_EQ(Quoted(std::string("a\0\"b", 4)), "\"a\\x00\\\"b\"");
  EXPECT_THAT(Quoted(std::string(70000, 'x')),
              HasSubstr("...\" (70000 bytes)"));
}

}  // namespace request_check_test
}  // namespace tutti
