#include "tools/files/npy_header.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// ml_dtypes saves both kinds under one descr.
template <typename Element>
constexpr bool IsFloat8() {
  return kIsFloating<Element> && sizeof(Element) == 1;
}

// Limits of NumPy: bytes of an element; bytes of a header that numpy.load()
// takes without being told so.
constexpr int64_t kMaxElementBytes = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxDescrBytes = 9000;

constexpr int kMaxNestedStructures = 32;

// Letter of a NumPy type. V: bytes without a meaning, for bfloat16 and floats
// of 8 bits.
char LetterOf(DType dtype) {
  return VisitDType(dtype, []<typename Element>(Element) {
    if (std::is_same_v<Element, bool>) return 'b';
    if (std::is_same_v<Element, BFloat16> || IsFloat8<Element>()) return 'V';
    if (kIsComplex<Element>) return 'c';
    if (kIsFloating<Element>) return 'f';
    return std::is_signed_v<Element> ? 'i' : 'u';
  });
}

// The `descr` that is written: "<f4".
std::string DescrOf(DType dtype) {
  const size_t size = SizeOf(dtype);
  return absl::StrCat(size == 1 ? "|" : "<", std::string(1, LetterOf(dtype)),
                      size);
}

// Text of a file, quoted for an error message.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  const bool is_long = text.size() > kMaxShown;
  const std::string escaped = absl::CHexEscape(text.substr(0, kMaxShown));
  return absl::StrCat("\"", absl::StrReplaceAll(escaped, {{"\\'", "'"}}),
                      is_long ? "..." : "", "\"");
}

// True if no other dtype has the same descr.
bool IsReadable(DType dtype) { return DescrOf(dtype) != "|V1"; }

// Returns "float16 (<f2), bfloat16 (<V2), ...".
std::string KnownDescrs() {
  std::vector<std::string> known;
  for (const DType dtype : kAllDTypes) {
    if (!IsReadable(dtype)) continue;
    known.push_back(absl::StrCat(Name(dtype), " (", DescrOf(dtype), ")"));
  }
  return absl::StrJoin(known, ", ");
}

absl::Status UnknownDescr(absl::string_view descr) {
  if (absl::StartsWith(descr, "|O")) {
    return InvalidNpy("holds Python objects, descr ", Quoted(descr),
                      "; wanted elements of a fixed size");
  }
  return InvalidNpy("holds elements of the unknown descr ", Quoted(descr),
                    "; wanted one of ", KnownDescrs());
}

// Bytes of an element of this type, which is none of Tutti's or the type of a
// field. Errors: INVALID_ARGUMENT if NumPy has no such type, or none of a fixed
// size.
absl::StatusOr<int64_t> ElementBytes(absl::string_view descr) {
  constexpr absl::string_view kNumbers =
      " b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 f12 f16 c8 c16 c24 c32 ";
  const auto is_digits = [](absl::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return absl::ascii_isdigit(c);
    });
  };
  const absl::string_view type = descr.substr(descr.empty() ? 0 : 1);
  const char letter = type.empty() ? '?' : type[0];
  absl::string_view number = type.substr(type.empty() ? 0 : 1);
  bool is_known = absl::StrContains("<>|", descr.substr(0, 1));
  if (letter == 'M' || letter == 'm') {  // A date, or a duration: "8[25s]".
    absl::string_view unit = number.substr(std::min<size_t>(1, number.size()));
    number = number.substr(0, 1);
    const bool fits = unit.empty() || (absl::ConsumePrefix(&unit, "[") &&
                                       absl::ConsumeSuffix(&unit, "]"));
    is_known = is_known && number == "8" && fits &&
               std::all_of(unit.begin(), unit.end(),
                           [](char c) { return absl::ascii_isalnum(c); });
  } else if (!absl::StrContains("VSU", absl::string_view(&letter, 1))) {
    is_known =
        is_known && absl::StrContains(kNumbers, absl::StrCat(" ", type, " "));
  }
  int64_t size = 0;
  is_known = is_known && is_digits(number) && absl::SimpleAtoi(number, &size);
  if (!is_known) return UnknownDescr(descr);
  const int64_t unit_bytes = letter == 'U' ? 4 : 1;
  if (size <= kMaxElementBytes / unit_bytes) return size * unit_bytes;
  return InvalidNpy("holds elements of descr ", Quoted(descr),
                    "; wanted at most ", kMaxElementBytes, " bytes");
}

// `descr` of the same type in the byte order that is written. One byte has no
// order: NumPy writes "|u1", other writers "<u1", "=u1", ">u1" or "u1".
std::string Normalized(absl::string_view descr) {
  if (descr == "|V2") return "<V2";
  const bool has_order =
      !descr.empty() && absl::StrContains("<=>|", descr.front());
  const absl::string_view type = descr.substr(has_order ? 1 : 0);
  const bool is_one_byte = type == "i1" || type == "u1" || type == "b1";
  if (is_one_byte) return absl::StrCat("|", type);
  const bool is_reversed =
      absl::StartsWith(descr, ">") && !absl::StartsWith(type, "V");
  return is_reversed ? absl::StrCat("<", type) : std::string(descr);
}

// Dtype of this descr; nullopt if Tutti has none.
std::optional<DType> DTypeOf(absl::string_view descr) {
  const std::string normalized = Normalized(descr);
  for (const DType dtype : kAllDTypes) {
    if (IsReadable(dtype) && DescrOf(dtype) == normalized) return dtype;
  }
  return std::nullopt;
}

// Size of the words that big-endian files have in reverse order; 0 in other
// files. A complex number is two words.
size_t BigEndianBytes(absl::string_view descr, DType dtype) {
  const size_t size = SizeOf(dtype);
  if (!absl::StartsWith(descr, ">") || size == 1) return 0;
  return descr[1] == 'c' ? size / 2 : size;
}

// Reads the dictionary from left to right and keeps the first error.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<NpyHeader> Parse() {
    if (!Take("{")) return Unexpected("a dictionary");
    while (!Take("}")) {
      RETURN_IF_ERROR(ParseEntry());
      if (Take(",")) continue;
      if (Take("}")) break;
      return Unexpected("',' or '}'");
    }
    SkipSpace();
    if (!rest_.empty()) return Unexpected("its end");
    return Finish();
  }

 private:
  absl::Status ParseEntry() {
    ASSIGN_OR_RETURN(const std::string key, ParseString("a key"));
    if (!Take(":")) return Unexpected("':'");
    return ParseValue(key);
  }

  absl::Status ParseValue(absl::string_view key) {
    const bool is_twice =
        (key == "descr" && descr_.has_value()) ||
        (key == "fortran_order" && fortran_order_.has_value()) ||
        (key == "shape" && shape_.has_value());
    if (is_twice) return InvalidNpy("its header has the key '", key, "' twice");
    if (key == "descr") return ParseDescr();
    if (key == "fortran_order") return ParseFortranOrder();
    if (key == "shape") return ParseShape();
    return InvalidNpy("its header has the unknown key ", Quoted(key),
                      "; wanted 'descr', 'fortran_order' and 'shape'");
  }

  absl::Status ParseDescr() {
    SkipSpace();
    const absl::string_view before = rest_;
    if (absl::StartsWith(before, "[")) {
      ASSIGN_OR_RETURN(element_bytes_, ParseElement(/*depth=*/0));
      descr_ = std::string(before.substr(0, before.size() - rest_.size()));
    } else {
      ASSIGN_OR_RETURN(descr_, ParseString("a dtype"));
      if (DTypeOf(*descr_).has_value()) return absl::OkStatus();
      ASSIGN_OR_RETURN(element_bytes_, ElementBytes(*descr_));
      descr_ = absl::StrCat("'", *descr_, "'");
    }
    if (element_bytes_ == 0) {
      return InvalidNpy("holds elements of no bytes, descr ", Quoted(*descr_));
    }
    // Copied as it is to the files that are written, of version 1.0.
    const bool is_plain = std::all_of(
        descr_->begin(), descr_->end(),
        [](char c) { return absl::ascii_isprint(static_cast<uint8_t>(c)); });
    if (is_plain && descr_->size() <= kMaxDescrBytes) return absl::OkStatus();
    return InvalidNpy("holds elements of descr ", Quoted(*descr_),
                      "; wanted printable ASCII of at most ", kMaxDescrBytes,
                      " bytes");
  }

  // Parses a type, or the list of the fields of a structure; returns the bytes
  // of an element.
  absl::StatusOr<int64_t> ParseElement(int depth) {
    if (!Take("[")) {
      ASSIGN_OR_RETURN(const std::string descr, ParseString("a dtype"));
      return ElementBytes(descr);
    }
    if (depth == kMaxNestedStructures) {
      return InvalidNpy("has structures more than ", depth, " deep");
    }
    int64_t bytes = 0;
    while (!Take("]")) {
      ASSIGN_OR_RETURN(const int64_t more, ParseField(depth));
      bytes += more;
      if (bytes > kMaxElementBytes) break;
      if (Take(",")) continue;
      if (Take("]")) break;
      return Unexpected("',' or ']'");
    }
    if (bytes <= kMaxElementBytes) return bytes;
    return InvalidNpy("holds structures of more than ", kMaxElementBytes,
                      " bytes");
  }

  // Parses "('name', '<f4')", "(('title', 'name'), '<f4')" or "('name', '<f4',
  // (2, 3))".
  absl::StatusOr<int64_t> ParseField(int depth) {
    if (!Take("(")) return Unexpected("a field in brackets");
    if (Take("(")) {
      RETURN_IF_ERROR(ParseString("a title").status());
      if (!Take(",")) return Unexpected("','");
      RETURN_IF_ERROR(ParseString("a field's name").status());
      if (!Take(")")) return Unexpected("')'");
    } else {
      RETURN_IF_ERROR(ParseString("a field's name").status());
    }
    if (!Take(",")) return Unexpected("','");
    ASSIGN_OR_RETURN(const int64_t bytes, ParseElement(depth + 1));
    if (Take(")")) return bytes;
    if (!Take(",")) return Unexpected("',' or ')'");
    ASSIGN_OR_RETURN(const TensorShape shape, ParseTuple());
    if (!Take(")")) return Unexpected("')'");
    const int64_t count = shape.num_elements();
    if (count == 0 || bytes <= kMaxElementBytes / count) return count * bytes;
    return InvalidNpy("holds structures of more than ", kMaxElementBytes,
                      " bytes");
  }

  absl::Status ParseFortranOrder() {
    if (Take("True")) {
      fortran_order_ = true;
    } else if (Take("False")) {
      fortran_order_ = false;
    } else {
      return Unexpected("True or False");
    }
    return absl::OkStatus();
  }

  absl::Status ParseShape() {
    ASSIGN_OR_RETURN(shape_, ParseTuple());
    return absl::OkStatus();
  }

  absl::StatusOr<TensorShape> ParseTuple() {
    if (!Take("(")) return Unexpected("a tuple");
    std::vector<int64_t> dims;
    bool after_comma = true;
    while (!Take(")")) {
      if (!after_comma) return Unexpected("',' or ')'");
      ASSIGN_OR_RETURN(const int64_t dim, ParseDim());
      dims.push_back(dim);
      if (dims.size() > kMaxNpyDims) {
        return InvalidNpy("has more than ", kMaxNpyDims, " dimensions");
      }
      after_comma = Take(",");
    }
    // Python reads (3) as a number; the tuple is (3,).
    if (dims.size() == 1 && !after_comma) return Unexpected("',' before ')'");
    return TensorShape::Create(dims);
  }

  absl::StatusOr<int64_t> ParseDim() {
    SkipSpace();
    size_t end = 0;
    while (end < rest_.size() && absl::ascii_isdigit(rest_[end])) ++end;
    int64_t dim = 0;
    if (end == 0 || !absl::SimpleAtoi(rest_.substr(0, end), &dim)) {
      return Unexpected("a size from 0 to 2^63-1");
    }
    rest_.remove_prefix(end);
    absl::ConsumePrefix(&rest_, "L");  // Python 2 wrote long numbers with an L.
    return dim;
  }

  absl::StatusOr<std::string> ParseString(absl::string_view what) {
    SkipSpace();
    if (!absl::StartsWith(rest_, "'") && !absl::StartsWith(rest_, "\"")) {
      return Unexpected(absl::StrCat(what, " in quotes"));
    }
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) {
      return Unexpected(absl::StrCat(what, " with both its quotes"));
    }
    const std::string value(rest_.substr(1, end - 1));
    if (absl::StrContains(value, '\\')) {
      return Unexpected(absl::StrCat(what, " without escapes"));
    }
    rest_.remove_prefix(end + 1);
    return value;
  }

  absl::StatusOr<NpyHeader> Finish() const {
    if (!descr_.has_value())
      return InvalidNpy("its header lacks the key 'descr'");
    if (!fortran_order_.has_value()) {
      return InvalidNpy("its header lacks the key 'fortran_order'");
    }
    if (!shape_.has_value())
      return InvalidNpy("its header lacks the key 'shape'");
    if (element_bytes_ > 0) return FinishBytes();
    const DType dtype = *DTypeOf(*descr_);
    return NpyHeader{.dtype = dtype,
                     .shape = *shape_,
                     .fortran_order = *fortran_order_,
                     .big_endian_bytes = BigEndianBytes(*descr_, dtype)};
  }

  absl::StatusOr<NpyHeader> FinishBytes() const {
    std::vector<int64_t> dims(shape_->dims().begin(), shape_->dims().end());
    dims.push_back(element_bytes_);
    ASSIGN_OR_RETURN(TensorShape shape, TensorShape::Create(dims));
    return NpyHeader{.dtype = DType::kUint8,
                     .shape = std::move(shape),
                     .descr = *descr_,
                     .fortran_order = *fortran_order_};
  }

  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  // Takes `token` if it comes next; returns whether it did.
  bool Take(absl::string_view token) {
    SkipSpace();
    return absl::ConsumePrefix(&rest_, token);
  }

  absl::Status Unexpected(absl::string_view wanted) const {
    if (rest_.empty())
      return InvalidNpy("its header ends where ", wanted, " was wanted");
    return InvalidNpy("its header has ", Quoted(rest_), " where ", wanted,
                      " was wanted");
  }

  absl::string_view rest_;
  std::optional<std::string> descr_;
  int64_t element_bytes_ = 0;  // 0: `descr_` is that of a dtype of Tutti.
  std::optional<bool> fortran_order_;
  std::optional<TensorShape> shape_;
};

// Prints "()", "(3,)", "(3, 4)".
std::string PythonTuple(const TensorShape& shape) {
  return absl::StrCat("(", absl::StrJoin(shape.dims(), ", "),
                      shape.num_dims() == 1 ? ",)" : ")");
}

}  // namespace

TensorShape ArrayShape(const NpyHeader& header) {
  if (header.descr.empty()) return header.shape;
  const auto dims = header.shape.dims();
  return *TensorShape::Create(dims.first(dims.size() - 1));
}

std::string ToString(const NpyHeader& header) {
  const absl::string_view descr = header.descr;
  return absl::StrCat(descr.empty() ? std::string(Name(header.dtype))
                      : descr.front() == '['
                          ? Quoted(descr)
                          : Quoted(descr.substr(1, descr.size() - 2)),
                      ArrayShape(header).ToString());
}

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  return HeaderParser(text).Parse();
}

std::string NpyPreamble(const NpyHeader& header) {
  constexpr size_t kFixedBytes = 10;
  constexpr size_t kAlignmentBytes = 64;
  std::string text = absl::StrCat(
      "{'descr': ",
      header.descr.empty() ? absl::StrCat("'", DescrOf(header.dtype), "'")
                           : header.descr,
      ", 'fortran_order': False, 'shape': ", PythonTuple(ArrayShape(header)),
      ", }");
  const size_t unpadded = kFixedBytes + text.size() + 1;
  text.append((kAlignmentBytes - unpadded % kAlignmentBytes) % kAlignmentBytes,
              ' ');
  text.push_back('\n');
  std::string preamble("\x93NUMPY\x01\x00", 8);
  preamble.push_back(static_cast<char>(text.size() & 0xFF));
  preamble.push_back(static_cast<char>(text.size() >> 8));
  return preamble + text;
}

}  // namespace tutti
