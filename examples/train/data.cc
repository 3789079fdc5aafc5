#include "examples/train/data.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace train {
namespace {

constexpr int kMaxPixel = 16;
constexpr size_t kRecordBytes = kNumPixels + 1;

absl::Status CannotRead(const std::string& path, std::error_code why) {
  return absl::NotFoundError(
      absl::StrCat("cannot read ", path, ": ", why.message()));
}

absl::StatusOr<std::vector<uint8_t>> ReadFile(const std::string& path) {
  std::error_code error;
  const auto size_bytes = std::filesystem::file_size(path, error);
  if (error) return CannotRead(path, error);
  std::vector<uint8_t> bytes(size_bytes);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()),
                 static_cast<std::streamsize>(size_bytes))) {
    return CannotRead(path, {errno, std::generic_category()});
  }
  return bytes;
}

absl::StatusOr<Example> Parse(absl::Span<const uint8_t> record) {
  Example example;
  for (int i = 0; i < kNumPixels; ++i) {
    if (record[i] > kMaxPixel) {
      return absl::DataLossError(absl::StrCat("pixel ", i, " is ", record[i],
                                              ", not 0 to ", kMaxPixel));
    }
    example.pixels[i] = static_cast<float>(record[i]) / kMaxPixel;
  }
  example.label = record[kNumPixels];
  if (example.label >= kNumClasses) {
    return absl::DataLossError(absl::StrCat("the label is ", example.label,
                                            ", not 0 to ", kNumClasses - 1));
  }
  return example;
}

absl::StatusOr<std::vector<Example>> ParseAll(absl::Span<const uint8_t> bytes) {
  if (bytes.size() % kRecordBytes != 0) {
    return absl::DataLossError(
        absl::StrCat(bytes.size(), " bytes are not records of ", kRecordBytes));
  }
  std::vector<Example> examples;
  for (size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    auto example = Parse(bytes.subspan(at, kRecordBytes));
    if (!example.ok()) {
      return absl::DataLossError(absl::StrCat(
          "record ", at / kRecordBytes, ": ", example.status().message()));
    }
    examples.push_back(*example);
  }
  return examples;
}

}  // namespace

absl::StatusOr<DataSet> ReadDataSet(const std::string& path, size_t num_test) {
  const auto bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  const auto examples = ParseAll(*bytes);
  if (!examples.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", examples.status().message()));
  }
  if (examples->size() <= num_test) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", examples->size(),
                     " examples, none but for the test of ", num_test));
  }
  const auto split = examples->end() - static_cast<std::ptrdiff_t>(num_test);
  return DataSet{{examples->begin(), split}, {split, examples->end()}};
}

std::string DefaultDataPath() {
  const std::string path = "examples/train/data/digits.bin";
  std::error_code error;  // Without /proc only the second path remains.
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string built =
      absl::StrCat(program.string(), ".runfiles/tutti/", path);
  return std::filesystem::exists(built, error) ? built : path;
}

void Shuffle(std::vector<Example>& examples, std::mt19937& generator) {
  for (size_t left = examples.size(); left > 1; --left) {
    std::swap(examples[left - 1], examples[generator() % left]);
  }
}

}  // namespace train
