#include "bench/memory_floors.h"

#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

constexpr size_t kBytes = 4096;
constexpr FloorPart kMiddle = {.begin = 1024, .end = 3072};

using Bytes = std::vector<uint8_t>;

class MemoryFloorsTest : public testing::Test {
 protected:
  MemoryFloorsTest() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::iota(inputs_[i].begin(), inputs_[i].end(), i * 31);
      buffers_.inputs.push_back(inputs_[i].data());
      buffers_.outputs.push_back(outputs_[i].data());
    }
  }

  // Expects the bytes outside the part to be unchanged.
  void ExpectOutsideIsUntouched() const {
    for (const Bytes& output : outputs_) {
      for (size_t i = 0; i < kBytes; ++i) {
        if (i >= kMiddle.begin && i < kMiddle.end) continue;
        ASSERT_EQ(output[i], 7) << i;
      }
    }
  }

  static Bytes Middle(const Bytes& bytes) {
    return {bytes.begin() + kMiddle.begin, bytes.begin() + kMiddle.end};
  }

  std::vector<Bytes> inputs_{3, Bytes(kBytes)};
  std::vector<Bytes> outputs_{3, Bytes(kBytes, 7)};
  FloorBuffers buffers_;
};

TEST_F(MemoryFloorsTest, CopyPastCachesWritesAllOfThePart) {
  CopyPastCaches(buffers_, kMiddle);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    EXPECT_THAT(Middle(outputs_[i]), ElementsAreArray(Middle(inputs_[i])));
  }
  ExpectOutsideIsUntouched();
}

TEST_F(MemoryFloorsTest, OverwriteChangesEveryByteOfThePart) {
  Overwrite(buffers_, kMiddle);
  for (const Bytes& output : outputs_) {
    EXPECT_THAT(Middle(output), Each(static_cast<uint8_t>(~7)));
  }
  ExpectOutsideIsUntouched();
}

TEST_F(MemoryFloorsTest, ReadAllWriteOneWritesTheFirstOutputAlone) {
  ReadAllWriteOne(buffers_, kMiddle);
  EXPECT_THAT(Middle(outputs_[0]), ElementsAreArray(Middle(inputs_[2])));
  EXPECT_THAT(outputs_[1], Each(7));
  EXPECT_THAT(outputs_[2], Each(7));
  ExpectOutsideIsUntouched();
}

TEST_F(MemoryFloorsTest, CopyToAndFroCopiesTheSecondHalf) {
  for (size_t i = 2048; i < kMiddle.end; ++i) outputs_[1][i] = 9;
  CopyToAndFro(buffers_, kMiddle);
  EXPECT_THAT(Middle(outputs_[1]), Each(9));
  ExpectOutsideIsUntouched();
}

}  // namespace
}  // namespace tutti
