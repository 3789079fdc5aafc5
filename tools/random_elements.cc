#include "tools/random_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "absl/strings/string_view.h"
#include "tools/element.h"

namespace tutti {
namespace {

using Generator = std::mt19937_64;

// Whole numbers up to this are exact.
int64_t LargestWhole(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return int64_t{1} << 11;
    case DType::kBFloat16:
      return int64_t{1} << 8;
    case DType::kFloat32:
      return int64_t{1} << 24;
    default:
      return int64_t{1} << 53;
  }
}

// Powers of two up to this, and down to its inverse, are exact.
int LargestExponent(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 14;
    case DType::kFloat64:
      return 1022;
    default:
      return 126;
  }
}

bool IsSum(const CollectiveSpec& spec) {
  return spec.reduction == "sum" || spec.reduction == "avg";
}

double PowerOfTwo(const Workload& workload, Generator& random) {
  const bool may_overflow =
      workload.group_size > LargestExponent(workload.dtype);
  const int exponent = may_overflow ? 0 : static_cast<int>(random() % 3) - 1;
  return std::ldexp(random() % 2 == 0 ? 1.0 : -1.0, exponent);
}

double Whole(int64_t largest, Generator& random) {
  const auto range = static_cast<uint64_t>(2 * largest + 1);
  return static_cast<double>(static_cast<int64_t>(random() % range) - largest);
}

double RandomFloating(const Workload& workload, Generator& random) {
  if (workload.spec.reduction == "prod") return PowerOfTwo(workload, random);
  const int64_t largest = LargestWhole(workload.dtype);
  if (!IsSum(workload.spec)) return Whole(largest, random);
  return Whole(std::max(largest / workload.group_size, int64_t{1}), random);
}

// Each bit is set in about one of as many numbers as there are ranks.
uint64_t RareBits(int group_size, Generator& random) {
  uint64_t bits = random();
  const int halvings = std::bit_width(static_cast<unsigned>(group_size)) - 1;
  for (int i = 0; i < halvings; ++i) bits &= random();
  return bits;
}

int64_t RandomInteger(const Workload& workload, Generator& random) {
  const absl::string_view reduction = workload.spec.reduction;
  uint64_t bits = random();
  if (workload.dtype == DType::kBool) bits &= 1;
  if (reduction == "prod") bits |= 1;
  if (reduction == "bor") bits = RareBits(workload.group_size, random);
  if (reduction == "band") bits = ~RareBits(workload.group_size, random);
  return static_cast<int64_t>(bits);
}

}  // namespace

std::vector<std::byte> RandomElements(const Workload& workload, int64_t count,
                                      uint64_t seed) {
  Generator random(seed);
  const DType dtype = workload.dtype;
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> elements(static_cast<size_t>(count) * size);
  const bool floating = IsFloating(dtype) && Reduces(workload.spec.type);
  for (size_t at = 0; at < elements.size(); at += size) {
    if (floating) {
      StoreFloating(dtype, RandomFloating(workload, random), &elements[at]);
    } else {
      StoreInteger(dtype, RandomInteger(workload, random), &elements[at]);
    }
  }
  return elements;
}

int MaxExactRanks(const Workload& workload) {
  const bool rounds = IsFloating(workload.dtype) && IsSum(workload.spec);
  const int64_t most = rounds ? LargestWhole(workload.dtype) : kMaxGroupSize;
  return static_cast<int>(std::min(most, int64_t{kMaxGroupSize}));
}

}  // namespace tutti
