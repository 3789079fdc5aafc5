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

// An image of a handwritten digit, and the digit.
struct Example {
  std::array<float, kNumPixels> pixels;  // Row by row; 0 is paper, 1 is ink.
  int label;
};

struct DataSet {
  std::vector<Example> training;
  std::vector<Example> test;
};

// Reads a file in the format of data/README.md; its last `num_test` examples
// are for the test. Errors: NOT_FOUND if the file cannot be read; DATA_LOSS
// saying where it is not in the format, or that it holds too few examples.
absl::StatusOr<DataSet> ReadDataSet(const std::string& path, size_t num_test);

// Where data/digits.bin is: next to the program, where the build puts it; else
// relative to the working directory, as in the root of the repository.
std::string DefaultDataPath();

// Unlike std::shuffle, does the same on every machine.
void Shuffle(std::vector<Example>& examples, std::mt19937& generator);

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_DATA_H_
