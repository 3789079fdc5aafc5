// Tests of how chunks follow one another through the stages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/peer/local_peer_access.h"
#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then.h"
#include "implementations/two_level/local_then_testing.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_chunks_test {

using testing::Optional;

using Call = Processes::Call;

// Uses more bytes than passes run inline, and more than one registered chunk.
TEST(LocalThenTest, LargeOnesAreReducedBySlices) {
  Processes processes({2, 3});
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4 + 12345;
  const CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, kNumElements);
  for (const bool in_place : {false, true}) {
    std::vector<Call> calls =
        RandomCalls(processes, DType::kInt32, kNumElements);
    const Bytes expected = Expected(request, processes.task_of(), calls);
    processes.RunAll(request, calls, in_place);
    ExpectAll(calls, expected);
  }
}

TEST(LocalThenTest, ChunksOverlapInAnyOrder) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Processes processes({2, 1, 3}, seed);
    CollectiveRequest request =
        processes.Request(seed % 2 == 0 ? "ThenRing" : "ThenTrees",
                          DType::kInt32, 6 * kChunkElements + 1);
    std::vector<Call> calls =
        RandomCalls(processes, DType::kInt32, request.shape.num_elements());
    const Bytes expected = Expected(request, processes.task_of(), calls);
    processes.RunAll(request, calls, /*in_place=*/seed % 3 == 0);
    ExpectAll(calls, expected);
  }
}

TEST(LocalThenTest, TheNextChunkIsReducedWhileOneMeetsOthers) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 4 * kChunkElements);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/true, &num_calls);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 4 * kChunkElements);
  processes.RunAll(request, calls);
  num_calls = 0;
  for (const int rank : {0, 1}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
  }
  processes.environment().RunAll();
  // Chunk 0 waits for the other process, and chunk 2 waits for chunk 0.
  EXPECT_EQ(num_calls, 2);
  for (const int rank : {2, 3}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
  }
  processes.environment().RunAll();
  for (const Call& call : calls) EXPECT_THAT(call.status, Optional(IsOk()));
}

// Records the keys of all sends.
class KeyRecorder : public LocalPeerAccess {
 public:
  explicit KeyRecorder(std::vector<BufKey>* keys) : keys_(keys) {}
  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    keys_->push_back(key);
    LocalPeerAccess::PostToPeer(peer, key, offer);
  }

 private:
  std::vector<BufKey>* const keys_;
};

// Returns the number of sends of the first member of one of two tasks.
size_t NumSends(const std::string& name, int64_t num_elements,
                const CollImplDetails& details) {
  std::vector<BufKey> keys;
  LocalJob job({.num_tasks = 2,
                .devices_per_task = 2,
                .make_peer_access = [&keys](int64_t /*step_id*/) {
                  return std::make_unique<KeyRecorder>(&keys);
                }});
  CollectiveRequest request = job.AllReduceRequest(num_elements, name);
  request.impl_details = details;
  request.impl_details.implementation = name;
  for (const LocalJob::Call* call : job.RunAll(request)) {
    EXPECT_THAT(call->status, Optional(IsOk()));
  }
  return static_cast<size_t>(
      absl::c_count_if(keys, [](const BufKey& key) { return key.from == 0; }));
}

TEST(LocalThenTest, SubdivisionsReachTheLevelBetween) {
  constexpr size_t kPerRing = 2;
  EXPECT_EQ(NumSends("LocalThenRing", 1001, {}), kPerRing);
  EXPECT_EQ(NumSends("LocalThenRing", 1001, {.subdiv_offsets = {0, -1, 2}}),
            3 * kPerRing);
}

TEST(LocalThenTest, TheLargestNumberOfSubdivisionsReachesTheLevelBetween) {
  constexpr int64_t kNumElements = kLocalThenChunkBytes / 4;
  constexpr size_t kPerRing = 2;
  EXPECT_EQ(NumSends("LocalThenRing", kNumElements, {}), 2 * kPerRing);
  EXPECT_EQ(
      NumSends("LocalThenRing", kNumElements, {.max_subdivs_per_device = -1}),
      kPerRing);
}

// A transport may still be ending the chunk before.
TEST(LocalThenTest, NoTwoChunksInARowUseTheSameKeys) {
  std::vector<BufKey> keys;
  LocalJob job({.num_tasks = 2,
                .devices_per_task = 2,
                .make_peer_access = [&keys](int64_t /*step_id*/) {
                  return std::make_unique<KeyRecorder>(&keys);
                }});
  for (const LocalJob::Call* call :
       job.RunAll(job.AllReduceRequest(5 * kChunkElements, "ThenRing"))) {
    ASSERT_THAT(call->status, Optional(IsOk()));
  }
  std::vector<int32_t> tags;  // Tags of the first member's sends.
  for (const BufKey& key : keys) {
    if (key.from == 0) tags.push_back(key.tag);
  }
  constexpr size_t kPerChunk = 2;
  ASSERT_EQ(tags.size(), 5 * kPerChunk);
  for (size_t i = kPerChunk; i < tags.size(); ++i) {
    for (size_t j = i / kPerChunk * kPerChunk - kPerChunk;
         j < i / kPerChunk * kPerChunk; ++j) {
      EXPECT_NE(tags[i], tags[j]) << i << ", " << j;
    }
  }
}

TEST(LocalThenTest, ThePriceIsThatOfItsChunks) {
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const auto price = [&layout](const std::string& name, int64_t bytes) {
    const auto factory = *CollectiveRegistry::Global().Find(name);
    return factory->traits().cost_seconds({.layout = layout, .bytes = bytes});
  };
  EXPECT_EQ(price("ThenRing", kChunkBytes),
            price("LocalThenRing", kChunkBytes));
  EXPECT_LT(price("ThenRing", 64 * kChunkBytes),
            price("LocalThenRing", 64 * kChunkBytes));
}

}  // namespace local_then_chunks_test
}  // namespace tutti
