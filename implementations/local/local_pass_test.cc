#include "implementations/local/local_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/executor/local_meeting.h"
#include "implementations/local/local_fan_out.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_pass_test {

constexpr int64_t kSmall = 1 << 10;  // Bytes of a member's input.
constexpr int64_t kLarge = 16 << 20;
constexpr int kNumWorkers = SimulatedEnvironment::kNumWorkers;

// A pass that does nothing.
class Idle final : public LocalPass {
 public:
  using LocalPass::LocalPass;
  using LocalPass::streams;

 private:
  int64_t num_bytes() const override { return 0; }
  absl::Status Run(ByteRange) const override { return absl::OkStatus(); }
};

bool Streams(int64_t num_bytes, const std::vector<StoreHint>& hints,
             std::optional<int64_t> past_caches_from_bytes = {}) {
  LocalJob job({.past_caches_from_bytes = past_caches_from_bytes});
  const Tensor tensor =
      *Tensor::Allocate(DType::kUint8, TensorShape::Vector(num_bytes));
  std::vector<CollectiveContext> contexts(hints.size());
  std::vector<Attendee> members(hints.size());
  for (size_t i = 0; i < hints.size(); ++i) {
    contexts[i].input = tensor;
    contexts[i].output = tensor;
    contexts[i].store_hint = hints[i];
    contexts[i].executor = &job.executor();
    members[i].context = &contexts[i];
  }
  return Idle(members).streams();
}

TEST(LocalPassTest, WhatIsLargeGoesPastTheCaches) {
  EXPECT_FALSE(Streams(kSmall, {StoreHint::kBySize, StoreHint::kBySize}));
  EXPECT_TRUE(Streams(kLarge, {StoreHint::kBySize, StoreHint::kBySize}));
}

TEST(LocalPassTest, WhatIsLargeIsAsTheManagerSays) {
  using enum StoreHint;
  // Each of two members has an input and an output.
  EXPECT_TRUE(Streams(kSmall, {kBySize, kBySize}, 4 * kSmall));
  EXPECT_FALSE(Streams(kSmall, {kBySize, kBySize}, 4 * kSmall + 1));
  EXPECT_FALSE(Streams(kLarge, {kBySize, kToCaches}, kSmall));
}

TEST(LocalPassTest, TheHintOfTheLowestRankThatGivesOneCounts) {
  using enum StoreHint;
  EXPECT_TRUE(Streams(kSmall, {kBySize, kPastCaches, kToCaches}));
  EXPECT_FALSE(Streams(kLarge, {kBySize, kToCaches, kPastCaches}));
}

// Returns the number of work items that two members with `num_bytes` bytes each
// schedule.
int NumHandedOver(int64_t num_bytes) {
  LocalJob job({.devices_per_task = 2});
  const auto num_elements = num_bytes / static_cast<int64_t>(sizeof(float));
  const CollectiveRequest request =
      job.AllReduceRequest(num_elements, "LocalReduce");
  job.Start(0, request);
  const LocalJob::Call& last = job.Start(1, request);
  int num_pieces = 0;
  while (job.environment().RunSome(1)) ++num_pieces;
  EXPECT_THAT(last.status, testing::Optional(IsOk()));
  EXPECT_TRUE(last.result() ==
              std::vector<float>(static_cast<size_t>(num_elements), 3));
  return num_pieces;
}

// Inputs and outputs of both members count together.
TEST(LocalPassTest, WhatIsSmallRunsOnTheThreadOfTheLastMember) {
  EXPECT_EQ(NumHandedOver(kSmall), 0);
  EXPECT_EQ(NumHandedOver(512 << 10), 0);
}

// The first worker to begin may do everything; others then come after the end.
TEST(LocalPassTest, WhatIsLargeIsHandedToAllWorkers) {
  EXPECT_EQ(NumHandedOver((512 << 10) + 64), kNumWorkers);
  EXPECT_EQ(NumHandedOver(kLarge), kNumWorkers);
}

// Records the slices of a pass over a line of bytes.
class Slices final : public LocalPass {
 public:
  Slices(absl::Span<const Attendee> members, int64_t line_bytes,
         int64_t touched_bytes)
      : LocalPass(members, touched_bytes), line_bytes_(line_bytes) {}

  // Returns the begins of its slices. They have run one after the other.
  const std::vector<int64_t>& begins() const {
    EXPECT_EQ(end_, line_bytes_);
    return begins_;
  }

 private:
  int64_t num_bytes() const override { return line_bytes_; }
  absl::Status Run(ByteRange slice) const override {
    EXPECT_EQ(slice.begin, end_);
    end_ = slice.end;
    begins_.push_back(slice.begin);
    return absl::OkStatus();
  }

  const int64_t line_bytes_;
  mutable int64_t end_ = 0;
  mutable std::vector<int64_t> begins_;
};

// A single member.
struct Member {
  explicit Member(CollectiveExecutor& executor) {
    context.input = *Tensor::Allocate(DType::kUint8, TensorShape::Vector(1));
    context.output = context.input;
    context.executor = &executor;
    context.execution = &execution;
    attendees[0].context = &context;
  }

  Execution execution{InstanceId{}, /*number=*/1};
  CollectiveContext context;
  std::vector<Attendee> attendees = std::vector<Attendee>(1);
};

std::vector<int64_t> BeginsOf(int64_t line_bytes, int64_t touched_bytes) {
  LocalJob job({});
  const Member member(job.executor());
  const auto pass =
      std::make_shared<Slices>(member.attendees, line_bytes, touched_bytes);
  std::optional<absl::Status> ended;
  LocalPass::Schedule(pass,
                      [&](absl::Status status) { ended = std::move(status); });
  job.environment().RunAll();
  EXPECT_THAT(ended, testing::Optional(IsOk()));
  return pass->begins();
}

// Slices have a minimum and a maximum size, with a few per worker.
TEST(LocalPassTest, ALineIsCutIntoSlicesThatBeginAtCacheLines) {
  EXPECT_THAT(BeginsOf(1000, 3 << 18), testing::ElementsAre(0, 384, 768));
  EXPECT_THAT(BeginsOf(1000, 1), testing::ElementsAre(0));
  EXPECT_THAT(BeginsOf(100, int64_t{1} << 30), testing::ElementsAre(0, 64));
  EXPECT_EQ(BeginsOf(1 << 20, int64_t{1} << 30).size(), 4 * kNumWorkers);
  EXPECT_EQ(BeginsOf(1 << 20, int64_t{1} << 33).size(), 128);
}

// A queue whose workers end before Schedule() returns.
class PromptQueue : public WorkQueue {
 public:
  explicit PromptQueue(const std::optional<absl::Status>& ended)
      : ended_(ended) {}
  void Schedule(Work work) override {
    std::thread(std::move(work)).join();
    EXPECT_FALSE(ended_.has_value());
    ++num_scheduled_;
  }
  int num_workers() const override { return kNumWorkers; }
  int num_scheduled() const { return num_scheduled_; }

 private:
  const std::optional<absl::Status>& ended_;
  int num_scheduled_ = 0;
};

// The queue may be destroyed when the calls have ended.
TEST(LocalPassTest, EndsOnlyWhenNothingMoreGoesToTheQueue) {
  std::optional<absl::Status> ended;
  PromptQueue queue(ended);
  const SimulatedEnvironment simulated(/*seed=*/1);
  const auto group = LocalGroup::Create(
      {&queue, simulated.get().clock, simulated.get().random}, 1, 1);
  ASSERT_THAT(group, IsOk());
  const auto executor = (*group)->manager().FindOrCreate(1);
  const Member member(*executor);
  LocalPass::Schedule(
      std::make_shared<Slices>(member.attendees, /*line_bytes=*/1 << 20,
                               /*touched_bytes=*/1 << 30),
      [&](absl::Status status) { ended = std::move(status); });
  EXPECT_THAT(ended, testing::Optional(IsOk()));
  EXPECT_EQ(queue.num_scheduled(), 1);  // The first worker did everything.
}

// Store hint and number of elements.
using Param = std::pair<StoreHint, int64_t>;

class StoreHintTest : public testing::TestWithParam<Param> {};

TEST_P(StoreHintTest, ResultsAreTheSame) {
  const auto [hint, num_elements] = GetParam();
  LocalJob job({.devices_per_task = 3});
  const auto calls = job.RunAll(
      job.AllReduceRequest(num_elements, "LocalReduce"),
      [hint = hint](CollectiveArgs& args) { args.store_hint = hint; });
  for (const LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, testing::Optional(IsOk()));
    EXPECT_EQ(call->result(),
              std::vector<float>(static_cast<size_t>(num_elements), 6));
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoreHintTest,
                         testing::Values(Param{StoreHint::kPastCaches, 1},
                                         Param{StoreHint::kPastCaches, 1001},
                                         Param{StoreHint::kToCaches,
                                               1'500'001}));

// Elements of each rank's block, of four bytes each. Blocks that are gathered,
// blocks that are too large, and empty blocks alternate and repeat.
std::vector<int64_t> BlockElements() {
  std::vector<int64_t> elements = {1, 65, 64, 0, 64, 3, 2000, 0, 1, 1100, 63};
  for (int i = 0; i < 50; ++i) elements.push_back(64);  // More than 4 KiB.
  for (int i = 0; i < 30; ++i) elements.push_back(i % 7);
  elements.push_back(0);
  return elements;
}

std::vector<float> AllBlocks() {
  std::vector<float> all;
  for (size_t rank = 0; rank < BlockElements().size(); ++rank) {
    all.insert(all.end(), static_cast<size_t>(BlockElements()[rank]),
               static_cast<float>(rank + 1));
  }
  return all;
}

class LocalFanOutTest : public testing::TestWithParam<bool> {};

TEST_P(LocalFanOutTest, BlocksOfAllSizesArriveInOrder) {
  const bool in_place = GetParam();
  const std::vector<int64_t> elements = BlockElements();
  const std::vector<float> all = AllBlocks();
  const auto shape = TensorShape::Vector(static_cast<int64_t>(all.size()));
  LocalJob job({.devices_per_task = static_cast<int>(elements.size())});
  std::vector<std::vector<float>> buffers(elements.size(), all);
  std::vector<LocalJob::Call*> calls;
  int64_t begin = 0;
  for (size_t rank = 0; rank < elements.size(); ++rank) {
    CollectiveRequest request =
        job.AllReduceRequest(elements[rank], "LocalGather");
    request.op = AllGather{.uneven = true};
    std::vector<float>& buffer = buffers[rank];
    for (float& value : buffer) value *= -1;
    for (int64_t i = begin; i < begin + elements[rank]; ++i) {
      buffer[static_cast<size_t>(i)] *= -1;
    }
    calls.push_back(
        &job.Start(static_cast<int>(rank), request, [&](CollectiveArgs& args) {
          *args.output = *Tensor::Wrap(DType::kFloat32, shape, buffer.data());
          if (!in_place) return;
          args.input = *Tensor::Wrap(DType::kFloat32, request.shape,
                                     buffer.data() + begin);
        }));
    begin += elements[rank];
  }
  job.environment().RunAll();
  for (const LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, testing::Optional(IsOk()));
    EXPECT_TRUE(call->result() == all);
  }
}

INSTANTIATE_TEST_SUITE_P(InPlaceOrNot, LocalFanOutTest, testing::Bool());

}  // namespace local_pass_test
}  // namespace tutti
