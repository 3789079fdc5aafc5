#include "schedule/engine/chunk_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "tutti/environment.h"

namespace tutti {
namespace chunk_pipeline_test {

using testing::AllOf;
using testing::Field;

auto Begins(std::optional<int64_t> to_reduce, std::optional<int64_t> to_meet) {
  return AllOf(Field(&ChunkPipeline::Next::to_reduce, to_reduce),
               Field(&ChunkPipeline::Next::to_meet, to_meet),
               Field(&ChunkPipeline::Next::ends, false));
}

auto Ends() {
  return AllOf(Field(&ChunkPipeline::Next::to_reduce, std::nullopt),
               Field(&ChunkPipeline::Next::to_meet, std::nullopt),
               Field(&ChunkPipeline::Next::ends, true));
}

TEST(ChunkPipelineTest, TheNextIsReducedWhileOneMeetsOthers) {
  Cancellation cancellation;
  ChunkPipeline pipeline(4, cancellation);
  EXPECT_THAT(pipeline.Take(), Begins(0, std::nullopt));
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(1, 0));
  pipeline.EndReduce();
  // Two reduced chunks have not met others.
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndMeet(/*begins_spread=*/true);
  EXPECT_THAT(pipeline.Take(), Begins(2, 1));
  pipeline.EndMeet(/*begins_spread=*/true);
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(3, 2));
  pipeline.EndReduce();
  pipeline.EndMeet(/*begins_spread=*/true);
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, 3));
  pipeline.EndMeet(/*begins_spread=*/true);
  // All four chunks are being spread.
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
    pipeline.EndSpread();
  }
  EXPECT_THAT(pipeline.Take(), Ends());
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
}

TEST(ChunkPipelineTest, EndsAtOnceWithoutChunks) {
  Cancellation cancellation;
  ChunkPipeline pipeline(0, cancellation);
  EXPECT_THAT(pipeline.Take(), Ends());
}

TEST(ChunkPipelineTest, AFailureLetsWhatIsUnderWayEndAndBeginsNothing) {
  Cancellation cancellation;
  ChunkPipeline pipeline(3, cancellation);
  EXPECT_THAT(pipeline.Take(), Begins(0, std::nullopt));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(1, 0));
  cancellation.Cancel(absl::AbortedError("over"));
  pipeline.EndReduce();
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndMeet(/*begins_spread=*/false);
  EXPECT_THAT(pipeline.Take(), Ends());
}

TEST(ChunkPipelineTest, SomethingElseKeepsItFromEnding) {
  Cancellation cancellation;
  ChunkPipeline pipeline(0, cancellation);
  ASSERT_TRUE(pipeline.BeginOther());
  EXPECT_THAT(pipeline.Take(), Begins(std::nullopt, std::nullopt));
  pipeline.EndOther();
  EXPECT_THAT(pipeline.Take(), Ends());
  EXPECT_FALSE(pipeline.BeginOther());
}

}  // namespace chunk_pipeline_test
}  // namespace tutti
