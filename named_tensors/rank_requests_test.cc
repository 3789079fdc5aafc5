#include "named_tensors/rank_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tutti {
namespace rank_requests_test {

TensorRequest Request(std::vector<int64_t> dims,
                      CollectiveType type = CollectiveType::kAllGather) {
  return {.name = "x", .type = type, .shape = *TensorShape::Create(dims)};
}

TEST(RankRequestsTest, GivesBackWhatEachRankAskedFor) {
  TensorRequest other_dtype = Request({3, 2});
  other_dtype.dtype = DType::kInt32;
  TensorRequest other_op = Request({3, 2});
  other_op.merge_op = "max";
  const std::vector<TensorRequest> wanted = {
      Request({3, 2}),
      Request({4, 2}),
      Request({0, 2}),
      Request({3, 2}),
      Request({3, 5}),
      Request({3}),
      Request({}),
      Request({1, 2, 3, 4, 5, 6}),
      Request({3, 2}, CollectiveType::kAllReduce),
      other_dtype,
      other_op};
  const int num_ranks = static_cast<int>(wanted.size());
  for (int first = 0; first < num_ranks; ++first) {
    SCOPED_TRACE(first);
    RankRequests requests(wanted[first]);
    for (int rank = num_ranks - 1; rank >= 0; --rank) {
      if (rank != first) requests.Add(rank, wanted[rank]);
    }
    EXPECT_EQ(requests.name(), "x");
    EXPECT_FALSE(requests.all_equal());
    std::vector<TensorRequest> given = requests.OfAll(num_ranks);
    EXPECT_EQ(given[0].name, "x");
    for (int rank = 0; rank < num_ranks; ++rank) {
      EXPECT_EQ(given[rank].name, rank == 0 ? "x" : "");
      given[rank].name = "x";
    }
    EXPECT_EQ(given, wanted);
  }
}

TEST(RankRequestsTest, EqualRequestsAreOne) {
  RankRequests requests(Request({3, 2}));
  requests.Add(0, Request({3, 2}));
  requests.Add(7, Request({3, 2}));
  EXPECT_TRUE(requests.all_equal());
  requests.Add(5, Request({2, 2}));
  EXPECT_FALSE(requests.all_equal());
}

}  // namespace rank_requests_test
}  // namespace tutti
