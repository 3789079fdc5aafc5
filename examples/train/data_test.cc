#include "examples/train/data.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Record of a white image.
std::string Record(char label) { return std::string(kNumPixels, '\0') + label; }

// Path of a new file.
std::string FileOf(const std::string& content) {
  const std::string path = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

absl::Status ErrorOf(const std::string& content) {
  return ReadDataSet(FileOf(content), 0).status();
}

// https://doi.org/10.24432/C50P49, optdigits.names, "testing set".
TEST(ShippedDataTest, HasThePublishedNumberOfEachDigit) {
  const auto data = ReadDataSet(DefaultDataPath(), 0);
  ASSERT_TRUE(data.ok()) << data.status();
  std::array<int, kNumClasses> counts = {};
  for (const Example& example : data->training) ++counts[example.label];
  EXPECT_THAT(counts,
              ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
}

TEST(ShippedDataTest, BeginsWithTheFirstImageOfTheSource) {
  const auto data = ReadDataSet(DefaultDataPath(), 0);
  ASSERT_TRUE(data.ok()) << data.status();
  const Example& first = data->training.front();
  const std::array<float, 16> upper_rows = {0, 0, 5,  13, 9,  1,  0, 0,
                                            0, 0, 13, 15, 10, 15, 5, 0};
  for (size_t i = 0; i < upper_rows.size(); ++i) {
    EXPECT_EQ(first.pixels[i], upper_rows[i] / 16) << "pixel " << i;
  }
  EXPECT_EQ(first.label, 0);
}

TEST(ReadDataSetTest, TheLastExamplesAreForTheTest) {
  const auto data = ReadDataSet(FileOf(Record(1) + Record(2) + Record(3)), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->training.size(), 2);
  EXPECT_EQ(data->training[0].label, 1);
  EXPECT_EQ(data->training[1].label, 2);
  ASSERT_EQ(data->test.size(), 1);
  EXPECT_EQ(data->test[0].label, 3);
}

TEST(ReadDataSetTest, AMissingFileIsNotFoundByName) {
  const absl::Status status = ReadDataSet("/no/such/file", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/file"));
}

TEST(ReadDataSetTest, AFolderIsNotFound) {
  const absl::Status status = ReadDataSet(::testing::TempDir(), 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
}

TEST(ReadDataSetTest, ATruncatedFileIsDataLoss) {
  const absl::Status status = ErrorOf(Record(1).substr(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("64 bytes are not records of 65"));
}

TEST(ReadDataSetTest, APixelOutOfRangeIsDataLossSayingWhere) {
  std::string bad = Record(2);
  bad[5] = 17;
  const absl::Status status = ErrorOf(Record(1) + bad);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("record 1: pixel 5 is 17"));
}

TEST(ReadDataSetTest, ALabelOutOfRangeIsDataLossSayingWhere) {
  const absl::Status status = ErrorOf(Record(10));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("record 0: the label is 10"));
}

TEST(ReadDataSetTest, NothingToTrainOnIsDataLoss) {
  EXPECT_EQ(ErrorOf("").code(), absl::StatusCode::kDataLoss);
  const absl::Status status = ReadDataSet(FileOf(Record(1)), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("1 examples"));
}

TEST(ShuffleTest, IsTheSameOnEveryMachine) {
  std::vector<Example> examples(6);
  for (int i = 0; i < 6; ++i) examples[i].label = i;
  std::mt19937 generator(1);
  Shuffle(examples, generator);
  std::vector<int> labels;
  for (const Example& example : examples) labels.push_back(example.label);
  // Computed by NumPy's MT19937.
  EXPECT_THAT(labels, ElementsAre(3, 5, 2, 0, 4, 1));
}

}  // namespace
}  // namespace train
