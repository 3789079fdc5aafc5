#include "tools/files/npy_header.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace npy_header_test {

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
std::string ErrorOf(absl::string_view text) {
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(text);
  if (header.ok()) return "";
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(header.status().message());
}

std::string ErrorOfDescr(absl::string_view descr) {
  return ErrorOf(Dictionary(descr, "False", "(3,)"));
}

std::string ErrorOfShape(absl::string_view shape) {
  return ErrorOf(Dictionary("'<f4'", "False", shape));
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

TEST(NpyHeaderTest, BigEndianIsRefusedByName) {
  EXPECT_THAT(ErrorOfDescr("'>f4'"), HasSubstr("big-endian"));
  EXPECT_THAT(ErrorOfDescr("'>f4'"), HasSubstr("\">f4\""));
  EXPECT_THAT(ErrorOfDescr("'>f4'"), HasSubstr("<f4"));
}

TEST(NpyHeaderTest, ObjectsAndStructuresAreRefusedByName) {
  EXPECT_THAT(ErrorOfDescr("'|O'"), HasSubstr("Python objects"));
  EXPECT_THAT(ErrorOfDescr("[('a', '<f4'), ('b', '<i4')]"),
              HasSubstr("structured dtype, \"[('a', '<f4'), "));
}

TEST(NpyHeaderTest, OtherDTypesAreRefusedWithTheKnownOnes) {
  for (absl::string_view descr :
       {"<c8", "<u3", "<i16", "<V4", "<U3", "|S4", "<M8[ns]", "<f16", "|V3",
        "=f4", "f4", "u", "<1", ""}) {
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

TEST(NpyHeaderTest, FortranOrderIsRefusedWhereItMatters) {
  EXPECT_THAT(ErrorOf(Dictionary("'<f4'", "True", "(2, 3)")),
              HasSubstr("Fortran order"));
  EXPECT_EQ(ErrorOf(Dictionary("'<f4'", "True", "(3,)")), "");
  EXPECT_EQ(ErrorOf(Dictionary("'<f4'", "True", "()")), "");
}

TEST(NpyHeaderTest, KeysMustBeThereOnce) {
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("lacks the key 'descr'"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'shape': (3,)}"),
              HasSubstr("lacks the key 'fortran_order'"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': False}"),
              HasSubstr("lacks the key 'shape'"));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'descr': '<f4'}"),
              HasSubstr("the key 'descr' twice"));
  EXPECT_THAT(ErrorOf("{'shape': (), 'shape': ()}"),
              HasSubstr("the key 'shape' twice"));
  EXPECT_THAT(ErrorOf("{'fortran_order': True, 'fortran_order': True}"),
              HasSubstr("the key 'fortran_order' twice"));
  EXPECT_THAT(ErrorOf("{'colour': 'red'}"), HasSubstr("\"colour\""));
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
  EXPECT_EQ(ErrorOf(good), "");
  EXPECT_NE(ErrorOf("x" + good), "");
  EXPECT_NE(ErrorOf(good + "x"), "");
  EXPECT_NE(ErrorOf(good + std::string(1, '\0')), "");
}

TEST(NpyHeaderTest, ErrorsShowStrangeTextShortAndPrintable) {
  const std::string error = ErrorOf("{" + std::string(1000, '\x01'));
  EXPECT_THAT(error, HasSubstr("\\x01"));
  EXPECT_LT(error.size(), 300u);
  EXPECT_THAT(ErrorOf(Dictionary("'<f4'", "False", "(3,)") + "\n\x80\xff"),
              HasSubstr("\"\\x80\\xff\""));
  EXPECT_THAT(ErrorOfDescr("'\x1b[2J'"), HasSubstr("\"\\x1b[2J\""));
}

}  // namespace npy_header_test
}  // namespace tutti
