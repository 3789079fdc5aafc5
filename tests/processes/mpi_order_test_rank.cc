// Tests of collectives that MPI runs and that ranks begin in different orders.
// Part of the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Every rank starts the collectives in a different order, all before the first
// one ends.
TEST_F(MpiCollectivesTest, RanksMayStartStepsAndInstancesInAnyOrder) {
  constexpr int kNumSteps = 5, kNumInstances = 6, kNumRounds = 4;
  const TensorShape shape = TensorShape::Vector(513);
  std::mt19937 random(static_cast<unsigned>(rank()));
  std::vector<CollectiveRequest> requests;
  for (int i = 0; i < kNumInstances; ++i) {
    requests.push_back(
        i % 2 == 0 ? RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape)
                   : RequestOf("MpiBroadcast", Broadcast{rank() == i % size()},
                               DType::kInt32, shape));
  }
  for (int round = 0; round < kNumRounds; ++round) {
    std::vector<int> order(kNumSteps * kNumInstances);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::deque<Call> calls(order.size());
    for (const int i : order) {
      const int instance = i % kNumInstances;
      calls[i].request = requests[instance];
      calls[i].input = Filled(DType::kInt32, shape, rank() + i);
      Start(calls[i], /*step=*/1 + i / kNumInstances);
    }
    for (const int i : order) {
      EXPECT_THAT(calls[i].Wait(), IsOk());
      const int instance = i % kNumInstances;
      Check(calls[i].output, [&](int64_t e) {
        if (instance % 2 == 1) return Value(instance % size() + i, e);
        int sum = 0;
        for (int r = 0; r < size(); ++r) sum += Value(r + i, e);
        return sum;
      });
    }
  }
}

// Group g begins at rank g: all pairs of neighbours, and all rotations of the
// ranks, each with another leader. Meanwhile MPI makes their communicators.
TEST_F(MpiCollectivesTest, GroupsThatOverlapMayBeginInAnyOrder) {
  const TensorShape shape = TensorShape::Vector(kMany);
  std::vector<std::pair<int, int>> groups;  // First task and number of tasks.
  for (int first = 0; first < size(); ++first) {
    groups.emplace_back(first, size());
    if (size() > 2) groups.emplace_back(first, 2);
    groups.emplace_back(first, 1);
  }
  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(),
               std::mt19937(static_cast<unsigned>(rank() * 7)));
  for (int round = 0; round < 3; ++round) {
    std::deque<Call> calls(groups.size());
    for (const int g : order) {
      const auto [first, num_tasks] = groups[g];
      const int own = (rank() - first + size()) % size();
      if (own >= num_tasks) continue;
      Call& call = calls[g];
      call.request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
      call.request.group_key = 100 + g;
      call.request.group_size = num_tasks;
      call.request.rank = own;
      call.request.instance_key = 1;
      call.input = Filled(DType::kInt32, shape, rank());
      Start(call, 1 + round);
    }
    for (const int g : order) {
      const auto [first, num_tasks] = groups[g];
      if ((rank() - first + size()) % size() >= num_tasks) continue;
      EXPECT_THAT(calls[g].Wait(), IsOk());
      Check(calls[g].output, [&](int64_t i) {
        int sum = 0;
        for (int m = 0; m < groups[g].second; ++m) {
          sum += Value((groups[g].first + m) % size(), i);
        }
        return sum;
      });
    }
  }
}

}  // namespace
}  // namespace tutti
