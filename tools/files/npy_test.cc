#include "tools/files/npy.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace npy_test {

using ::testing::HasSubstr;

constexpr char kDictionary[] =
    "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }\n";

// Elements of a file that holds int32[3]: 7, 8, 9.
std::string Elements() {
  const int32_t elements[] = {7, 8, 9};
  return std::string(reinterpret_cast<const char*>(elements), sizeof(elements));
}

// A file of the given version with the given header and elements.
std::string FileOf(int major, const std::string& header,
                   const std::string& elements) {
  std::string file = "\x93NUMPY";
  file.push_back(static_cast<char>(major));
  file.push_back('\0');
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    file.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  return file + header + elements;
}

absl::StatusOr<Tensor> Read(const std::string& file) {
  std::istringstream in(file);
  return ReadNpy(in, static_cast<int64_t>(file.size()));
}

std::string ErrorOf(const std::string& file) {
  const absl::StatusOr<Tensor> tensor = Read(file);
  return std::string(tensor.status().message());
}

TEST(NpyTest, ReadsVersions1To3) {
  for (int major : {1, 2, 3}) {
    const auto tensor = Read(FileOf(major, kDictionary, Elements()));
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(tensor->dtype(), DType::kInt32);
    EXPECT_EQ(tensor->shape().ToString(), "[3]");
    EXPECT_EQ(std::memcmp(tensor->data(), Elements().data(), 12), 0);
  }
}

TEST(NpyTest, ReadsScalarsAndEmptyArrays) {
  const auto scalar =
      Read(FileOf(1, "{'descr':'|b1','fortran_order':False,'shape':()}", "\1"));
  ASSERT_THAT(scalar, IsOk());
  EXPECT_EQ(scalar->num_elements(), 1);
  const auto empty = Read(
      FileOf(1, "{'descr':'<f8','fortran_order':False,'shape':(2,0)}", ""));
  ASSERT_THAT(empty, IsOk());
  EXPECT_EQ(empty->shape().ToString(), "[2,0]");
}

TEST(NpyTest, OtherVersionsAreRefused) {
  EXPECT_THAT(ErrorOf(FileOf(4, kDictionary, Elements())),
              HasSubstr("version 4.0; wanted 1.0, 2.0 or 3.0"));
  EXPECT_THAT(ErrorOf(FileOf(0, kDictionary, Elements())),
              HasSubstr("version 0.0"));
  std::string file = FileOf(1, kDictionary, Elements());
  file[7] = 1;
  EXPECT_THAT(ErrorOf(file), HasSubstr("version 1.1"));
}

TEST(NpyTest, OtherFilesAreRefused) {
  EXPECT_THAT(ErrorOf("PK\x03\x04 and so on"), HasSubstr("no .npy file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("truncated"));
}

TEST(NpyTest, OneByteTooFewOrTooManyIsRefused) {
  const std::string file = FileOf(1, kDictionary, Elements());
  EXPECT_THAT(ErrorOf(file.substr(0, file.size() - 1)),
              HasSubstr("int32[3] take 12 bytes, but 11 follow"));
  EXPECT_THAT(ErrorOf(file + "x"),
              HasSubstr("int32[3] take 12 bytes, but 13 follow"));
}

TEST(NpyTest, HugeHeadersAreRefusedWithoutReadingThem) {
  std::string file = FileOf(2, kDictionary, Elements());
  for (int i = 8; i < 12; ++i) file[i] = '\xFF';
  EXPECT_THAT(ErrorOf(file), HasSubstr("header of 4294967295 bytes"));
  file = FileOf(1, kDictionary, Elements());
  file[8] = file[9] = '\xFF';
  EXPECT_THAT(ErrorOf(file), HasSubstr("its header takes 65535 bytes"));
}

TEST(NpyTest, HugeShapesAreRefusedWithoutAllocating) {
  EXPECT_THAT(
      ErrorOf(FileOf(
          1, "{'descr':'<f8','fortran_order':False,'shape':(1<<40,)}", "")),
      HasSubstr("header"));
  EXPECT_THAT(ErrorOf(FileOf(1,
                             "{'descr':'|u1','fortran_order':False,'shape':"
                             "(9223372036854775807,)}",
                             "abc")),
              HasSubstr("take 9223372036854775807 bytes, but 3 follow"));
  EXPECT_THAT(ErrorOf(FileOf(1,
                             "{'descr':'<f8','fortran_order':False,'shape':"
                             "(4611686018427387904,)}",
                             "abc")),
              HasSubstr("64 bits"));
}

TEST(NpyTest, EveryTruncationIsRefused) {
  for (int major : {1, 3}) {
    const std::string file = FileOf(major, kDictionary, Elements());
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_NE(ErrorOf(file.substr(0, size)), "") << size;
    }
  }
}

// With any byte changed to any value, the file is refused or read as an array
// of exactly its own bytes.
TEST(NpyTest, EveryCorruptionOfAByteIsRefusedOrHarmless) {
  for (int major : {1, 2}) {
    const std::string file = FileOf(major, kDictionary, Elements());
    for (size_t i = 0; i < file.size() - 12; ++i) {
      for (int value = 0; value < 256; ++value) {
        std::string corrupted = file;
        corrupted[i] = static_cast<char>(value);
        const absl::StatusOr<Tensor> tensor = Read(corrupted);
        if (tensor.ok()) {
          EXPECT_EQ(tensor->size_bytes(), 12u);
        } else {
          EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
          EXPECT_LT(tensor.status().message().size(), 300u);
        }
      }
    }
  }
}

class NpyFileTest : public ::testing::Test {
 protected:
  const std::string path_ = ::testing::TempDir() + "/npy_file_test.npy";
  void TearDown() override { std::filesystem::remove_all(path_); }
};

TEST_F(NpyFileTest, ReadsAFile) {
  std::ofstream(path_) << FileOf(1, kDictionary, Elements());
  const auto header = ReadNpyHeader(path_);
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(ToString(*header), "int32[3]");
  const auto tensor = ReadNpy(path_);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(std::memcmp(tensor->data(), Elements().data(), 12), 0);
}

TEST_F(NpyFileTest, HeadersAloneAreCheckedAgainstTheSizeToo) {
  std::ofstream(path_) << FileOf(1, kDictionary, "");
  EXPECT_FALSE(ReadNpyHeader(path_).ok());
}

TEST_F(NpyFileTest, ErrorsNameTheFile) {
  const auto missing = ReadNpy(path_);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), path_ + ": no such file");
  std::ofstream(path_) << "not an array";
  EXPECT_THAT(std::string(ReadNpy(path_).status().message()),
              HasSubstr(path_ + ": is no .npy file"));
}

TEST_F(NpyFileTest, DirectoriesAndDevicesAreRefused) {
  std::filesystem::create_directory(path_);
  EXPECT_THAT(std::string(ReadNpy(path_).status().message()),
              HasSubstr("is a directory"));
  EXPECT_THAT(std::string(ReadNpy("/dev/zero").status().message()),
              HasSubstr("is no regular file"));
}

}  // namespace npy_test
}  // namespace tutti
