#include "tools/request/random_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "absl/strings/string_view.h"
#include "tools/request/element.h"

namespace tutti {
namespace {

using Generator = std::mt19937_64;

// Whole numbers up to this are exact, also as double.
int64_t LargestWhole(DType dtype) {
  return VisitDType(dtype, []<typename Element>(Element) {
    return int64_t{1} << std::min(FloatLimits<Element>::digits, 53);
  });
}

// Powers of two up to this, and down to its inverse, are exact.
int LargestExponent(DType dtype) {
  return VisitDType(dtype, []<typename Element>(Element) {
    return FloatLimits<Element>::max_exponent - 2;
  });
}

bool IsSum(const CollectiveSpec& spec) {
  return spec.reduction == "sum" || spec.reduction == "avg";
}

double PowerOfTwo(bool may_overflow, Generator& random) {
  const int exponent = may_overflow ? 0 : static_cast<int>(random() % 3) - 1;
  return std::ldexp(random() % 2 == 0 ? 1.0 : -1.0, exponent);
}

double Whole(int64_t largest, Generator& random) {
  const auto range = static_cast<uint64_t>(2 * largest + 1);
  return static_cast<double>(static_cast<int64_t>(random() % range) - largest);
}

// Sets each bit in about one of `group_size` numbers.
uint64_t RareBits(int group_size, Generator& random) {
  uint64_t bits = random();
  const int halvings = std::bit_width(static_cast<unsigned>(group_size)) - 1;
  for (int i = 0; i < halvings; ++i) bits &= random();
  return bits;
}

// Generates the next element.
using FloatingSource = std::function<double(Generator&)>;
using IntegerSource = std::function<uint64_t(Generator&)>;

FloatingSource FloatsOf(const Workload& workload) {
  if (workload.spec.reduction == "prod") {
    const bool may_overflow =
        workload.group_size > LargestExponent(workload.dtype);
    return [=](Generator& random) { return PowerOfTwo(may_overflow, random); };
  }
  int64_t largest = LargestWhole(workload.dtype);
  if (IsSum(workload.spec)) {
    largest = std::max(largest / workload.group_size, int64_t{1});
  }
  return [=](Generator& random) { return Whole(largest, random); };
}

IntegerSource IntegersOf(const Workload& workload) {
  const absl::string_view reduction = workload.spec.reduction;
  const int group_size = workload.group_size;
  if (workload.dtype == DType::kBool) {
    return [](Generator& random) { return random() & 1; };
  }
  if (reduction == "prod") {
    return [](Generator& random) { return random() | 1; };
  }
  if (reduction == "bor") {
    return [=](Generator& random) { return RareBits(group_size, random); };
  }
  if (reduction == "band") {
    return [=](Generator& random) { return ~RareBits(group_size, random); };
  }
  return [](Generator& random) { return random(); };
}

}  // namespace

std::vector<std::byte> RandomElements(const Workload& workload, int64_t count,
                                      uint64_t seed) {
  Generator random(seed);
  const DType dtype = workload.dtype;
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> elements(static_cast<size_t>(count) * size);
  const bool floating = IsFloating(dtype) && Reduces(workload.spec.type);
  const FloatingSource next_float = FloatsOf(workload);
  const IntegerSource next_integer = IntegersOf(workload);
  for (size_t at = 0; at < elements.size(); at += size) {
    if (floating) {
      StoreFloating(dtype, next_float(random), &elements[at]);
    } else {
      const auto integer = static_cast<int64_t>(next_integer(random));
      StoreInteger(dtype, integer, &elements[at]);
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
