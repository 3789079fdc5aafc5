// Runs a fuzz target without a fuzzer, on its seeds and on inputs derived from
// them, which are the same in every run. An input that ends the process remains
// as "input" among the test's outputs.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

int num_mutations = 0;

// Keeps the current input in a file, and removes the file after success.
class InputAtHand {
 public:
  InputAtHand() {
    const char* const folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (folder == nullptr) return;
    path_ = std::string(folder) + "/input";
    file_ = open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  }
  ~InputAtHand() {
    if (file_ < 0) return;
    close(file_);
    unlink(path_.c_str());
  }
  InputAtHand(const InputAtHand&) = delete;
  InputAtHand& operator=(const InputAtHand&) = delete;

  void Run(const std::string& input) const {
    if (file_ >= 0) {
      const auto size = static_cast<ssize_t>(input.size());
      ASSERT_EQ(ftruncate(file_, size), 0);
      ASSERT_EQ(pwrite(file_, input.data(), input.size(), 0), size);
    }
    // Copied to a buffer of exactly its size, so that a sanitizer detects reads
    // past the end.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }

 private:
  std::string path_;
  int file_ = -1;
};

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string Next() {
    std::string bytes = seeds_[Draw(seeds_.size())];
    for (size_t i = 0; i <= Draw(4); ++i) Change(bytes);
    return bytes;
  }

 private:
  size_t Draw(size_t count) { return random_() % count; }
  char DrawByte() { return static_cast<char>(random_()); }

  void Change(std::string& bytes) {
    constexpr char kExtremes[] = {'\0', '\1', '\x7f', '\x80', '\xfe', '\xff'};
    const size_t at = Draw(bytes.size() + 1);
    const size_t num = std::min(bytes.size() - at, 1 + Draw(16));
    switch (Draw(7)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, 1 + Draw(8), DrawByte());
        break;
      case 2:
        bytes.erase(at, num);
        break;
      case 3:
        bytes.insert(Draw(bytes.size() + 1), bytes.substr(at, num));
        break;
      case 4: {
        const std::string& other = seeds_[Draw(seeds_.size())];
        bytes.replace(at, num, other, Draw(other.size() + 1), 1 + Draw(64));
        break;
      }
      case 5:
        bytes.replace(at, num, num, kExtremes[Draw(sizeof(kExtremes))]);
        break;
      default:
        if (num > 0) bytes[at] = DrawByte();
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{/*seed=*/1};
};

TEST(FuzzTest, SeedsKeepAllPromises) {
  const InputAtHand input;
  input.Run("");
  for (const std::string& seed : FuzzSeeds()) input.Run(seed);
}

TEST(FuzzTest, WhatIsBredFromSeedsKeepsAllPromises) {
  const InputAtHand input;
  const std::vector<std::string> seeds = FuzzSeeds();
  ASSERT_FALSE(seeds.empty());
  Mutator mutator(seeds);
  for (int i = 0; i < num_mutations; ++i) input.Run(mutator.Next());
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2 || !absl::SimpleAtoi(argv[1], &tutti::num_mutations)) return 2;
  return RUN_ALL_TESTS();
}
