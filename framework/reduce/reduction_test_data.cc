#include "framework/reduce/reduction_test_data.h"

#include <random>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// Bits of elements, without sign, at corner cases of arithmetic. Bits of
// integers are cut to the size of the dtype.
std::vector<uint64_t> SpecialMagnitudes(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {0x0000, 0x3C00, 0x0001, 0x03FF, 0x0400, 0x7BFF,
              0x7C00, 0x7C01, 0x7E00, 0x7FFF, 0x3C01, 0x5640};
    case DType::kBFloat16:
      return {0x0000, 0x3F80, 0x0001, 0x007F, 0x0080, 0x7F7F,
              0x7F80, 0x7F81, 0x7FC0, 0x7FFF, 0x3F81, 0x4049};
    case DType::kFloat8E4M3FN:
      return {0x00, 0x38, 0x01, 0x07, 0x08, 0x7E,
              0x7D, 0x7F, 0x40, 0x70, 0x39, 0x54};
    case DType::kFloat8E5M2:
      return {0x00, 0x3C, 0x01, 0x03, 0x04, 0x7B,
              0x7C, 0x7D, 0x7E, 0x7F, 0x3D, 0x56};
    case DType::kFloat32:
      return {0x00000000, 0x3F800000, 0x00000001, 0x007FFFFF,
              0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001,
              0x7FC00000, 0x7FFFFFFF, 0x3F800001, 0x40490FDB};
    case DType::kFloat64:
      return {0x0000000000000000, 0x3FF0000000000000, 0x0000000000000001,
              0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF,
              0x7FF0000000000000, 0x7FF0000000000001, 0x7FF8000000000000,
              0x7FFFFFFFFFFFFFFF, 0x3FF0000000000001, 0x400921FB54442D18};
    default:
      return {0,
              1,
              2,
              3,
              0x7F,
              0xFF,
              0x7FFF,
              0xFFFF,
              0x7FFFFFFF,
              0xFFFFFFFF,
              0x7FFFFFFFFFFFFFFF,
              0xFFFFFFFFFFFFFFFF};
  }
}

void Append(DType dtype, uint64_t bits, Bytes* elements) {
  for (size_t i = 0; i < SizeOf(dtype); ++i) {
    elements->push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
}

}  // namespace

std::vector<ReductionPair> SupportedPairs() {
  std::vector<ReductionPair> pairs;
  for (DType dtype : kAllDTypes) {
    for (ReductionKind kind : kAllReductionKinds) {
      if (CheckSupported(kind, dtype).ok()) pairs.push_back({kind, dtype});
    }
  }
  return pairs;
}

std::string Describe(const ReductionPair& pair) {
  return absl::StrCat(Name(pair.kind), " of ", Name(pair.dtype));
}

Bytes Element(DType dtype, uint64_t bits) {
  Bytes element;
  Append(dtype, bits, &element);
  return element;
}

uint64_t SignBit(DType dtype) { return uint64_t{1} << (8 * SizeOf(dtype) - 1); }

Bytes RandomElements(DType dtype, size_t num_elements, uint64_t seed) {
  if (IsComplex(dtype)) {
    return RandomElements(PartOf(dtype), 2 * num_elements, seed);
  }
  std::mt19937_64 random(seed);
  const std::vector<uint64_t> special = SpecialMagnitudes(dtype);
  Bytes elements;
  for (size_t i = 0; i < num_elements; ++i) {
    uint64_t bits = random();
    if (random() % 2 == 0) {
      const uint64_t sign = random() % 2 == 0 ? 0 : SignBit(dtype);
      bits = special[random() % special.size()] ^ sign;
    }
    Append(dtype, bits, &elements);
  }
  return elements;
}

std::pair<Bytes, Bytes> SpecialOperands(DType dtype) {
  if (IsComplex(dtype)) return SpecialOperands(PartOf(dtype));
  std::vector<uint64_t> special;
  for (uint64_t magnitude : SpecialMagnitudes(dtype)) {
    special.push_back(magnitude);
    special.push_back(magnitude ^ SignBit(dtype));
  }
  std::pair<Bytes, Bytes> operands;
  for (uint64_t left : special) {
    for (uint64_t right : special) {
      Append(dtype, left, &operands.first);
      Append(dtype, right, &operands.second);
    }
  }
  return operands;
}

}  // namespace tutti
