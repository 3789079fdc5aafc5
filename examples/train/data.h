#ifndef TUTTI_EXAMPLES_TRAIN_DATA_H_
#define TUTTI_EXAMPLES_TRAIN_DATA_H_

#include <array>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace train {

inline constexpr int kNumPixels = 64;   // 8 rows of 8.
inline constexpr int kNumClasses = 10;  // The digits 0 to 9.

// Image of a handwritten digit, and the digit.
struct Example {
  std::array<float, kNumPixels> pixels;  // By rows; 0 is paper, 1 is ink.
  int label;
};

struct DataSet {
  std::vector<Example> training;
  std::vector<Example> test;
};

// Reads a file in the format of data/README.md; its last `num_test` examples
// are for the test. Errors: NOT_FOUND if the file cannot be read; DATA_LOSS
// naming the place of a format error, or if the file holds too few examples.
absl::StatusOr<DataSet> ReadDataSet(const std::string& path, size_t num_test);

// Path of data/digits.bin: next to the program, where the build puts it; else
// relative to the working directory, if that is the root of the repository.
std::string DefaultDataPath();

// Shuffles in the same way on every machine, unlike std::shuffle.
void Shuffle(std::vector<Example>& examples, std::mt19937& generator);

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_DATA_H_
