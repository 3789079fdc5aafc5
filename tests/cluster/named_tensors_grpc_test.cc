// Named tensors among tasks that talk over gRPC.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/cluster/named_call.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {
namespace named_tensors_grpc_test {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kNumRanks = 3;

class NamedTensorsGrpcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runtimes = JoinedGrpcTasks(kNumRanks, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    runtimes_ = *std::move(runtimes);
  }

  // Reduces the names on all ranks, each rank starting with a different name.
  // Returns the calls with their results.
  std::vector<NamedCall> ReduceOnAll(const std::vector<std::string>& names,
                                     const std::vector<Tensor>& inputs) {
    std::vector<NamedCall> calls(kNumRanks * names.size());
    BlockingCounter left(static_cast<int>(calls.size()));
    for (size_t i = 0; i < calls.size(); ++i) {
      const size_t rank = i % kNumRanks;
      const size_t name = (i / kNumRanks + rank * 17) % names.size();
      runtimes_[rank]->coordinator().AllReduce(
          {.name = names[name],
           .input = inputs[rank],
           .output = &calls[i].output},
          [&call = calls[i], &left](absl::Status status) {
            call.Set()(std::move(status));
            left.DecrementCount();
          });
    }
    left.Wait();
    return calls;
  }

  DefaultEnvironment environment_{/*num_workers=*/2};
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
};

TEST_F(NamedTensorsGrpcTest, RanksMeetHearWhatDiffersAndShutDown) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back(absl::StrCat("tensor ", i));
  names.push_back(std::string("a\0b", 3));
  names.push_back(std::string(kMaxTensorNameBytes, '\xff'));
  std::vector<Tensor> inputs, others;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    inputs.push_back(Filled(DType::kFloat32, TensorShape::Vector(100),
                            static_cast<float>(rank + 1)));
    others.push_back(Filled(DType::kFloat32, TensorShape::Vector(rank), 0));
  }
  for (int round = 0; round < 2; ++round) {
    for (const NamedCall& call : ReduceOnAll(names, inputs)) {
      ASSERT_THAT(call.status, IsOk());
      EXPECT_THAT(call.Values(), Each(6));
    }
    for (const NamedCall& call : ReduceOnAll(names, others)) {
      EXPECT_THAT(call.status,
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           HasSubstr("mismatched allreduce tensor shapes")));
    }
  }
  const auto waiting =
      CallAllGather(runtimes_[2]->coordinator(), "one asks", inputs[2]);
  BlockingCounter down(kNumRanks);
  for (const auto& runtime : runtimes_) {
    runtime->coordinator().Shutdown([&down](const absl::Status& status) {
      EXPECT_THAT(status, IsOk());
      down.DecrementCount();
    });
  }
  down.Wait();
  EXPECT_THAT(waiting->status,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("shut down")));
}

TEST_F(NamedTensorsGrpcTest, GathersOfOtherRowsAndOfNoneMeet) {
  for (int round = 0; round < 2 * kNumRanks; ++round) {
    std::vector<NamedCallPtr> calls;
    std::vector<float> wanted;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      const int rows = (rank + round) % kNumRanks;  // 0 on one rank.
      wanted.insert(wanted.end(), rows, static_cast<float>(rank));
      calls.push_back(
          CallAllGather(runtimes_[rank]->coordinator(), "rows",
                        Filled(DType::kFloat32, TensorShape::Vector(rows),
                               static_cast<float>(rank))));
    }
    for (const NamedCallPtr& call : calls) {
      call->Wait();
      ASSERT_THAT(call->status, IsOk());
      EXPECT_EQ(call->Values(), wanted);
    }
  }
}

// Each rank waits for another one, which makes no request; the destruction ends
// this.
TEST_F(NamedTensorsGrpcTest, DestructionEndsWhatWaits) {
  const auto first =
      CallAllReduce(runtimes_[1]->coordinator(), "x",
                    Filled(DType::kFloat32, TensorShape::Vector(1), 0));
  runtimes_.clear();
  EXPECT_EQ(first->num_answers, 1);
  EXPECT_FALSE(first->status.ok());
}

}  // namespace named_tensors_grpc_test
}  // namespace tutti
