#include "tools/files/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tests/doubles/status_matchers.h"
#include "tools/files/npy_header.h"

namespace tutti {
namespace npy_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NpyHeader HeaderOf(DType dtype, absl::Span<const int64_t> dims) {
  return {dtype, *TensorShape::Create(dims)};
}

std::string Dictionary(absl::string_view descr, absl::string_view order,
                       absl::string_view shape) {
  return absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order,
                      ", 'shape': ", shape, ", }");
}

// The error message of parsing the text; "" if parsing succeeds.
std::string ErrorOfHeader(absl::string_view text) {
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(text);
  if (header.ok()) return "";
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(header.status().message());
}

std::string ErrorOfDescr(absl::string_view descr) {
  return ErrorOfHeader(Dictionary(descr, "False", "(3,)"));
}

std::string ErrorOfShape(absl::string_view shape) {
  return ErrorOfHeader(Dictionary("'<f4'", "False", shape));
}

TEST(NpyHeaderTest, ReadsWhatNumpyWrites) {
  const auto header = ParseNpyHeader(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n");
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(ToString(*header), "float32[3,4]");
}

TEST(NpyHeaderTest, ReadsAnyOrderSpacingAndQuotes) {
  for (absl::string_view text :
       {"{'shape':(3,4),'descr':'<f4','fortran_order':False}",
        "\n { \"fortran_order\" : False , \"shape\" : ( 3 , 4 , ) ,\n"
        "   \"descr\" : \"<f4\" } \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }"}) {
    const auto header = ParseNpyHeader(text);
    ASSERT_THAT(header, IsOk());
    EXPECT_EQ(ToString(*header), "float32[3,4]");
  }
}

TEST(NpyHeaderTest, EveryDTypeSurvivesBeingWrittenAndRead) {
  for (DType dtype : kAllDTypes) {
    if (IsFloating(dtype) && SizeOf(dtype) == 1) continue;
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{}, {0}, {7}, {2, 0, 3}, {1, 2, 3, 4}}) {
      const NpyHeader header = HeaderOf(dtype, dims);
      const auto read = ParseNpyHeader(NpyPreamble(header).substr(10));
      ASSERT_THAT(read, IsOk());
      EXPECT_EQ(ToString(*read), ToString(header));
    }
  }
}

TEST(NpyHeaderTest, ThePreambleIsWhatNumpyWrites) {
  EXPECT_EQ(NpyPreamble(HeaderOf(DType::kFloat32, {3, 4})),
            std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" +
                std::string(58, ' ') + "\n");
  EXPECT_THAT(NpyPreamble(HeaderOf(DType::kInt8, {5})), HasSubstr("(5,), }"));
  EXPECT_THAT(NpyPreamble(HeaderOf(DType::kBool, {})), HasSubstr("(), }"));
}

TEST(NpyHeaderTest, ThePreambleAlignsTheElements) {
  std::vector<int64_t> dims;
  for (int i = 0; i < kMaxNpyDims; ++i) {
    EXPECT_EQ(NpyPreamble(HeaderOf(DType::kFloat32, dims)).size() % 64, 0u);
    dims.push_back(1 + i % 2 * 1000);
    if (i % 2 == 1) dims.back() = 0;  // Otherwise there are too many elements.
  }
}

TEST(NpyHeaderTest, BothNamesOfBfloat16AreRead) {
  for (absl::string_view descr : {"'<V2'", "'|V2'"}) {
    const auto header = ParseNpyHeader(Dictionary(descr, "False", "(3,)"));
    ASSERT_THAT(header, IsOk());
    EXPECT_EQ(header->dtype, DType::kBFloat16);
  }
}

TEST(NpyHeaderTest, FloatsOf8BitsAreWrittenAndReadAsBytes) {
  EXPECT_THAT(NpyPreamble(HeaderOf(DType::kFloat8E4M3FN, {3})),
              HasSubstr("'|V1'"));
  const auto header = ParseNpyHeader(Dictionary("'|V1'", "False", "(3,)"));
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(ToString(*header), "\"|V1\"[3]");
  EXPECT_EQ(header->shape.ToString(), "[3,1]");
}

constexpr char kStructure[] =
    "[('a', '<f4'), (('title, too', 'b (c)'), '>i2', (2, 3)), ('', '|V2'), "
    "('d', [('e', '<M8[25s]'), ('f', '<U3')])]";

TEST(NpyHeaderTest, OtherElementsAreBytesAndKeepTheirDescr) {
  for (const auto& [descr, bytes] :
       {std::pair("'<M8[ns]'", 8), std::pair("'>M8[25s]'", 8),
        std::pair("'<m8'", 8), std::pair("'<U3'", 12), std::pair("'|S4'", 4),
        std::pair("'|V16'", 16), std::pair("'<f16'", 16),
        std::pair("'>c32'", 32), std::pair("'>V2'", 2),
        std::pair("[('a', '<f4')]", 4), std::pair(kStructure, 38)}) {
    const std::string dictionary = Dictionary(descr, "False", "(3, 4)");
    const auto header = ParseNpyHeader(dictionary);
    ASSERT_THAT(header, IsOk()) << descr;
    EXPECT_EQ(header->dtype, DType::kUint8);
    EXPECT_EQ(header->shape.ToString(), absl::StrCat("[3,4,", bytes, "]"));
    EXPECT_EQ(header->big_endian_bytes, 0u);
    EXPECT_EQ(ArrayShape(*header).ToString(), "[3,4]");
    EXPECT_THAT(NpyPreamble(*header), HasSubstr(dictionary));
  }
}

TEST(NpyHeaderTest, StructuresAreCheckedFieldByField) {
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "[('a', ";
  for (const auto& [descr, wanted] :
       {std::pair("[('a', '|O')]", "Python objects"),
        std::pair("[('a', '<u3')]", "unknown descr \"<u3\""),
        std::pair("[('a', '<f4', 3)]", "a tuple"),
        std::pair("[('a', '<f4', (2,), 1)]", "')'"),
        std::pair("[('a', '<f4') ('b', '<f4')]", "',' or ']'"),
        std::pair("['<f4']", "a field in brackets"),
        std::pair("[]", "no bytes"),
        std::pair("[('a', '<f4', (0,))]", "no bytes"),
        std::pair("[('a', '|V2147483647'), ('b', '|i1')]", "2147483647 bytes"),
        std::pair("[('a', '<f8', (9223372036854775807,))]", "2147483647 bytes"),
        std::pair("[('a\x01', '<f8')]", "printable ASCII"),
        std::pair(deep.c_str(), "more than 32 deep")}) {
    EXPECT_THAT(ErrorOfDescr(descr), HasSubstr(wanted)) << descr;
  }
  EXPECT_THAT(
      ErrorOfDescr(absl::StrCat("[('", std::string(9000, 'a'), "', '<f4')]")),
      HasSubstr("at most 9000 bytes"));
  const std::string structure = Dictionary(kStructure, "False", "()");
  for (size_t size = 0; size + 4 < structure.size(); ++size) {
    EXPECT_NE(ErrorOfHeader(structure.substr(0, size)), "") << size;
  }
}

TEST(NpyHeaderTest, ComplexNumbersHaveTheDescrOfNumpy) {
  EXPECT_THAT(NpyPreamble(HeaderOf(DType::kComplex64, {3})),
              HasSubstr("'<c8'"));
  EXPECT_THAT(NpyPreamble(HeaderOf(DType::kComplex128, {3})),
              HasSubstr("'<c16'"));
}

TEST(NpyHeaderTest, OneByteMayHaveAnyByteOrder) {
  for (absl::string_view order : {"|", "<", ">", "=", ""}) {
    for (const auto& [type, dtype] :
         {std::pair("i1", DType::kInt8), std::pair("u1", DType::kUint8),
          std::pair("b1", DType::kBool)}) {
      const std::string descr = absl::StrCat("'", order, type, "'");
      const auto header = ParseNpyHeader(Dictionary(descr, "False", "(3,)"));
      ASSERT_THAT(header, IsOk()) << descr;
      EXPECT_EQ(header->dtype, dtype) << descr;
    }
  }
}

TEST(NpyHeaderTest, OrdersAreReadAndNotWritten) {
  const auto header = ParseNpyHeader(Dictionary("'>f8'", "True", "(2, 3)"));
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(ToString(*header), "float64[2,3]");
  EXPECT_TRUE(header->fortran_order);
  EXPECT_EQ(header->big_endian_bytes, 8u);
  EXPECT_EQ(NpyPreamble(*header),
            NpyPreamble(HeaderOf(DType::kFloat64, {2, 3})));
}

TEST(NpyHeaderTest, OneByteIsNeverBigEndian) {
  const auto header = ParseNpyHeader(Dictionary("'>u1'", "False", "()"));
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->big_endian_bytes, 0u);
}

TEST(NpyHeaderTest, ObjectsAreRefusedByName) {
  EXPECT_THAT(ErrorOfDescr("'|O'"), HasSubstr("Python objects"));
}

TEST(NpyHeaderTest, UnknownDescrsAreRefusedWithTheKnownOnes) {
  for (absl::string_view descr :
       {"<c3", "<u3", "<i16", "<V", "<U+3", "|S4x", "<M8[", "<M4[ns]", "<m8]",
        "<M8[*s]", "=f4", "f4", "u", "<1", "<", "", "|V99999999999999999999"}) {
    const std::string error = ErrorOfDescr(absl::StrCat("'", descr, "'"));
    EXPECT_THAT(error, HasSubstr(absl::StrCat("\"", descr, "\"")));
    EXPECT_THAT(error,
                HasSubstr("float16 (<f2), bfloat16 (<V2), float32 (<f4), "));
  }
}

TEST(NpyHeaderTest, IntegersOfEverySizeAreRead) {
  for (const auto& [descr, dtype] :
       {std::pair("<i2", DType::kInt16), std::pair("<u2", DType::kUint16),
        std::pair("<i4", DType::kInt32), std::pair("<u4", DType::kUint32),
        std::pair("<i8", DType::kInt64), std::pair("<u8", DType::kUint64)}) {
    const auto header = ParseNpyHeader(
        Dictionary(absl::StrCat("'", descr, "'"), "False", "()"));
    ASSERT_THAT(header, IsOk()) << descr;
    EXPECT_EQ(header->dtype, dtype) << descr;
  }
}

TEST(NpyHeaderTest, KeysMustBeThereOnce) {
  EXPECT_THAT(ErrorOfHeader("{}"), HasSubstr("lacks the key 'descr'"));
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f4', 'shape': (3,)}"),
              HasSubstr("lacks the key 'fortran_order'"));
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f4', 'fortran_order': False}"),
              HasSubstr("lacks the key 'shape'"));
  EXPECT_THAT(ErrorOfHeader("{'descr': '<f4', 'descr': '<f4'}"),
              HasSubstr("the key 'descr' twice"));
  EXPECT_THAT(ErrorOfHeader("{'shape': (), 'shape': ()}"),
              HasSubstr("the key 'shape' twice"));
  EXPECT_THAT(ErrorOfHeader("{'fortran_order': True, 'fortran_order': True}"),
              HasSubstr("the key 'fortran_order' twice"));
  EXPECT_THAT(ErrorOfHeader("{'colour': 'red'}"), HasSubstr("\"colour\""));
}

TEST(NpyHeaderTest, ShapesMustBeTuplesOfSizes) {
  for (absl::string_view shape :
       {"3", "(3)", "[3]", "(-1,)", "(1.5,)", "(3 4)", "(,)", "(3,,)", "('3',)",
        "(0x3,)", "(9223372036854775808,)", "None", "(3"}) {
    EXPECT_NE(ErrorOfShape(shape), "") << shape;
  }
}

TEST(NpyHeaderTest, ShapesTooLargeToCountAreRefused) {
  EXPECT_NE(ErrorOfShape("(4611686018427387904, 4)"), "");
  EXPECT_EQ(ErrorOfShape("(9223372036854775807,)"), "");
}

TEST(NpyHeaderTest, TooManyDimensionsAreRefused) {
  std::string shape = "(";
  for (int i = 0; i < kMaxNpyDims; ++i) absl::StrAppend(&shape, "1,");
  EXPECT_EQ(ErrorOfShape(shape + ")"), "");
  EXPECT_THAT(ErrorOfShape(shape + "1)"), HasSubstr("more than 64 dimensions"));
}

TEST(NpyHeaderTest, NothingMayStandAroundTheDictionary) {
  const std::string good = Dictionary("'<f4'", "False", "(3,)");
  EXPECT_EQ(ErrorOfHeader(good), "");
  EXPECT_NE(ErrorOfHeader("x" + good), "");
  EXPECT_NE(ErrorOfHeader(good + "x"), "");
  EXPECT_NE(ErrorOfHeader(good + std::string(1, '\0')), "");
}

TEST(NpyHeaderTest, ErrorsShowStrangeTextShortAndPrintable) {
  const std::string error = ErrorOfHeader("{" + std::string(1000, '\x01'));
  EXPECT_THAT(error, HasSubstr("\\x01"));
  EXPECT_LT(error.size(), 300u);
  EXPECT_THAT(
      ErrorOfHeader(Dictionary("'<f4'", "False", "(3,)") + "\n\x80\xff"),
      HasSubstr("\"\\x80\\xff\""));
  EXPECT_THAT(ErrorOfDescr("'\x1b[2J'"), HasSubstr("\"\\x1b[2J\""));
}

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

// Bytes of the numbers from 1 on, each of `size` bytes, as the file has them.
std::string Numbers(const std::vector<int>& order, size_t size,
                    bool big_endian) {
  std::string bytes;
  for (const int number : order) {
    for (size_t i = 0; i < size; ++i) {
      const size_t at = big_endian ? size - 1 - i : i;
      bytes.push_back(static_cast<char>(at < 4 ? number >> 8 * at : 0));
    }
  }
  return bytes;
}

TEST(NpyTest, FortranOrderBecomesCOrder) {
  const auto tensor =
      Read(FileOf(1, Dictionary("'<i4'", "True", "(2, 3)"),
                  Numbers({1, 4, 2, 5, 3, 6}, 4, /*big_endian=*/false)));
  ASSERT_THAT(tensor, IsOk());
  const auto* numbers = reinterpret_cast<const int32_t*>(tensor->data());
  EXPECT_THAT(std::vector<int32_t>(numbers, numbers + 6),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

// The last shapes are longer than the pieces in which files are read.
TEST(NpyTest, EveryOrderOfElementsAndBytesIsReadForEverySize) {
  for (const std::vector<int>& dims : {std::vector<int>{},
                                       {7},
                                       {2, 3},
                                       {3, 1, 4, 2},
                                       {5, 0, 3},
                                       {123, 457},
                                       {7, 89, 97}}) {
    int num_elements = 1;
    for (const int dim : dims) num_elements *= dim;
    for (const bool fortran : {false, true}) {
      // Numbers of the elements, in the order of the file.
      std::vector<int> order(static_cast<size_t>(num_elements));
      for (int at = 0; at < num_elements; ++at) {
        int number = 0;
        int rest = at;
        int stride = fortran ? num_elements : 1;
        for (size_t i = 0; i < dims.size(); ++i) {
          const size_t k = fortran ? i : dims.size() - 1 - i;
          if (fortran) stride /= dims[k];
          number += rest % dims[k] * stride;
          if (!fortran) stride *= dims[k];
          rest /= dims[k];
        }
        order[static_cast<size_t>(at)] = number;
      }
      std::vector<int> wanted(order.size());
      std::iota(wanted.begin(), wanted.end(), 0);
      for (const bool big_endian : {false, true}) {
        for (const size_t size : {1, 2, 4, 8}) {
          const std::string descr = absl::StrCat("'",
                                                 size == 1    ? "|"
                                                 : big_endian ? ">"
                                                              : "<",
                                                 "u", size, "'");
          const std::string shape = absl::StrCat("(", absl::StrJoin(dims, ","),
                                                 dims.size() == 1 ? ",)" : ")");
          const auto tensor = Read(
              FileOf(2, Dictionary(descr, fortran ? "True" : "False", shape),
                     Numbers(order, size, big_endian)));
          ASSERT_THAT(tensor, IsOk()) << descr << shape;
          const std::string bytes(reinterpret_cast<const char*>(tensor->data()),
                                  tensor->size_bytes());
          EXPECT_TRUE(bytes == Numbers(wanted, size, /*big_endian=*/false))
              << descr << shape << (fortran ? " in Fortran order" : "");
        }
      }
    }
  }
}

TEST(NpyTest, ElementsReadAsBytesStayWhole) {
  for (const int size : {3, 24, 70000}) {
    const auto element = [size](char c) {
      return std::string(static_cast<size_t>(size), c);
    };
    std::string in_file;
    for (char c : {'a', 'd', 'b', 'e', 'c', 'f'}) in_file += element(c);
    const auto tensor = Read(
        FileOf(1, Dictionary(absl::StrCat("'|V", size, "'"), "True", "(2, 3)"),
               in_file));
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(tensor->shape().ToString(), absl::StrCat("[2,3,", size, "]"));
    std::string wanted;
    for (char c : {'a', 'b', 'c', 'd', 'e', 'f'}) wanted += element(c);
    EXPECT_TRUE(wanted ==
                std::string(reinterpret_cast<const char*>(tensor->data()),
                            tensor->size_bytes()));
  }
}

TEST(NpyTest, FloatsMayBeBigEndian) {
  for (const auto& [descr, dtype, one] :
       {std::tuple("'>f2'", DType::kFloat16, std::string("\x3C\0", 2)),
        std::tuple("'>f4'", DType::kFloat32, std::string("\x3F\x80\0\0", 4)),
        std::tuple("'>f8'", DType::kFloat64,
                   std::string("\x3F\xF0\0\0\0\0\0\0", 8))}) {
    const auto tensor = Read(FileOf(1, Dictionary(descr, "False", "()"), one));
    ASSERT_THAT(tensor, IsOk()) << descr;
    EXPECT_EQ(tensor->dtype(), dtype);
    const std::string native(one.rbegin(), one.rend());
    EXPECT_EQ(std::memcmp(tensor->data(), native.data(), native.size()), 0);
  }
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
  EXPECT_THAT(ReadNpy(path_),
              StatusIs(absl::StatusCode::kNotFound, path_ + ": no such file"));
  std::ofstream(path_) << "not an array";
  EXPECT_THAT(std::string(ReadNpy(path_).status().message()),
              HasSubstr(path_ + ": is no .npy file"));
}

TEST_F(NpyFileTest, DirectoriesAndDevicesAreRefused) {
  std::filesystem::create_directory(path_);
  EXPECT_THAT(std::string(ReadNpy(path_).status().message()),
              HasSubstr("is a directory; wanted a .npy file"));
  EXPECT_THAT(std::string(ReadNpy("/dev/zero").status().message()),
              HasSubstr("is no regular file"));
}

}  // namespace npy_test
}  // namespace tutti
