#include "tools/request/test_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <random>
#include <type_traits>

#include "absl/numeric/int128.h"
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
  const bool is_bool = workload.dtype == DType::kBool;
  const uint64_t mask = is_bool ? 1 : ~uint64_t{0};
  if (reduction == "prod") {
    return [](Generator& random) { return random() | 1; };
  }
  if (reduction == "bor" || (is_bool && reduction == "max")) {
    return
        [=](Generator& random) { return RareBits(group_size, random) & mask; };
  }
  if (reduction == "band" || (is_bool && reduction == "min")) {
    return
        [=](Generator& random) { return ~RareBits(group_size, random) & mask; };
  }
  return [=](Generator& random) { return random() & mask; };
}

// Chosen once instead of once per element. Integers are combined as unsigned
// ones where they may wrap around.
template <typename Value>
auto CombineOf(absl::string_view reduction) -> Value (*)(Value, Value) {
  if constexpr (!kIsComplex<Value>) {
    if (reduction == "min")
      return [](Value a, Value b) { return std::min(a, b); };
    if (reduction == "max")
      return [](Value a, Value b) { return std::max(a, b); };
  }
  if constexpr (std::is_integral_v<Value>) {
    using Bits = uint64_t;
    if (reduction == "prod") {
      return [](Value a, Value b) {
        return static_cast<Value>(Bits(a) * Bits(b));
      };
    }
    if (reduction == "band") return [](Value a, Value b) { return a & b; };
    if (reduction == "bor") return [](Value a, Value b) { return a | b; };
    if (reduction == "bxor") return [](Value a, Value b) { return a ^ b; };
    return
        [](Value a, Value b) { return static_cast<Value>(Bits(a) + Bits(b)); };
  } else {
    if (reduction == "prod") return [](Value a, Value b) { return a * b; };
    return [](Value a, Value b) { return a + b; };
  }
}

// Products of real numbers above 0 have no rounding, and one sign of zero.
std::vector<std::byte> RandomComplex(const Workload& workload, int64_t count,
                                     uint64_t seed) {
  Workload of_parts = workload;
  of_parts.dtype = PartOf(workload.dtype);
  auto elements = RandomElements(of_parts, 2 * count, seed);
  if (workload.spec.reduction != "prod") return elements;
  const size_t size = SizeOf(workload.dtype);
  for (size_t at = 0; at < elements.size(); at += size) {
    const auto value = LoadValue<double>(of_parts.dtype, &elements[at]);
    StoreFloating(workload.dtype, std::abs(value), &elements[at]);
  }
  return elements;
}

// `elements` twice.
std::vector<std::byte> Doubled(std::vector<std::byte> elements) {
  const size_t size = elements.size();
  elements.resize(2 * size);
  std::copy_n(elements.begin(), size, elements.begin() + size);
  return elements;
}

int StrideOf(const Workload& workload) {
  const int most = MaxExactRanks(workload);
  return (workload.group_size + most - 1) / most;
}

}  // namespace

std::vector<std::byte> RandomElements(const Workload& workload, int64_t count,
                                      uint64_t seed) {
  if (IsComplex(workload.dtype)) return RandomComplex(workload, count, seed);
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
  const DType dtype = PartOf(workload.dtype);
  const bool rounds = IsFloating(dtype) && IsSum(workload.spec);
  const int64_t most = rounds ? LargestWhole(dtype) : kMaxGroupSize;
  return static_cast<int>(std::min(most, int64_t{kMaxGroupSize}));
}

ReferenceReduction::ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                                       int64_t num_elements)
    : spec_(spec), dtype_(dtype) {
  if (spec.reduction == "avg" && IsInteger(dtype)) {
    values_ = std::vector<absl::int128>(num_elements);  // No sum is too large.
    return;
  }
  VisitDType(dtype, [&]<typename Element>(Element) {
    values_ = std::vector<ValueOf<Element>>(num_elements);
  });
}

void ReferenceReduction::Add(absl::Span<const std::byte> elements) {
  const bool is_first = num_added_++ == 0;
  std::visit(
      [&]<typename Value>(std::vector<Value>& values) {
        const auto combine = CombineOf<Value>(spec_.reduction);
        const std::byte* at = elements.data();
        for (Value& value : values) {
          const auto added = LoadValue<Value>(dtype_, at);
          value = is_first ? added : combine(value, added);
          at += SizeOf(dtype_);
        }
      },
      values_);
}

std::vector<std::byte> ReferenceReduction::Result() const {
  const bool is_average = spec_.reduction == "avg";
  return std::visit(
      [&]<typename Value>(const std::vector<Value>& values) {
        std::vector<std::byte> result(values.size() * SizeOf(dtype_));
        std::byte* at = result.data();
        const auto divisor = static_cast<Value>(is_average ? num_added_ : 1);
        for (Value value : values) {
          if constexpr (kIsComplex<Value>) {
            const DType part = PartOf(dtype_);
            const Value quotient = value / divisor.real();
            StoreFloating(part, quotient.real(), at);
            StoreFloating(part, quotient.imag(), at + SizeOf(part));
          } else if constexpr (std::is_floating_point_v<Value>) {
            StoreFloating(dtype_, value / divisor, at);
          } else {
            StoreInteger(dtype_, static_cast<int64_t>(value / divisor), at);
          }
          at += SizeOf(dtype_);
        }
        return result;
      },
      values_);
}

TestData::TestData(const Workload& workload, uint64_t seed, bool with_results)
    : workload_(workload),
      element_bytes_(SizeOf(workload.dtype)),
      stride_(StrideOf(workload)),
      offset_(static_cast<int>(seed % static_cast<uint64_t>(stride_))),
      random_(Doubled(RandomElements(workload, kPeriod, seed))),
      zeros_(stride_ == 1 ? 0 : random_.size()),
      reduction_(with_results && Reduces(workload.spec.type) &&
                         !IsScan(workload.spec.type)
                     ? ReductionOf(workload.group_size)
                     : Periods()) {}

TestData::Periods TestData::ReductionOf(int num_ranks) const {
  const int64_t count = std::min(workload_.count, kPeriod);
  ReferenceReduction reduction(workload_.spec, workload_.dtype, count);
  for (int rank = 0; rank < num_ranks; ++rank) {
    reduction.Add({Find(BroughtBy(rank), PhaseOf(rank)),
                   static_cast<size_t>(count) * element_bytes_});
  }
  Periods one_period = reduction.Result();
  one_period.resize(kPeriod * element_bytes_);
  return Doubled(std::move(one_period));
}

const TestData::Periods& TestData::BroughtBy(int rank) const {
  return rank % stride_ == offset_ ? random_ : zeros_;
}

int64_t TestData::PhaseOf(int rank) {
  constexpr int64_t kStep = 7919;  // Any number that kPeriod does not divide.
  return rank * kStep % kPeriod;
}

const std::byte* TestData::Find(const Periods& periods, int64_t begin) const {
  return periods.data() + static_cast<size_t>(begin % kPeriod) * element_bytes_;
}

void TestData::WriteInput(int rank, std::byte* into, Copy copy) const {
  const int64_t count = InputElements(workload_, rank);
  const std::byte* period = Find(BroughtBy(rank), PhaseOf(rank));
  for (int64_t done = 0; done < count; done += kPeriod) {
    const size_t num_bytes =
        static_cast<size_t>(std::min(kPeriod, count - done)) * element_bytes_;
    copy(into, period, num_bytes);
    into += num_bytes;
  }
}

int64_t TestData::CountWrong(int rank,
                             absl::Span<const std::byte> output) const {
  const auto wanted_bytes =
      static_cast<size_t>(OutputElements(workload_, rank)) * element_bytes_;
  if (output.size() != wanted_bytes) {
    return static_cast<int64_t>(std::max(output.size(), wanted_bytes) /
                                element_bytes_);
  }
  const CollectiveType type = workload_.spec.type;
  const Periods scan =
      IsScan(type) && !output.empty()
          ? ReductionOf(NumReduced(type, rank, workload_.group_size))
          : Periods();
  int64_t wrong = 0;
  const std::byte* found = output.data();
  for (const Segment& segment : ExpectedOutput(workload_, rank)) {
    wrong += CountWrong(segment, IsScan(type) ? scan : reduction_, found);
    found += static_cast<size_t>(segment.count) * element_bytes_;
  }
  return wrong;
}

int64_t TestData::CountWrong(const Segment& segment, const Periods& reduction,
                             const std::byte* found) const {
  const bool is_reduced = segment.source == Segment::kReduction;
  const Periods& periods = is_reduced ? reduction : BroughtBy(segment.source);
  const int64_t begin =
      segment.begin + (is_reduced ? 0 : PhaseOf(segment.source));
  int64_t wrong = 0;
  for (int64_t done = 0; done < segment.count; done += kPeriod) {
    const std::byte* wanted = Find(periods, begin + done);
    const size_t num_bytes =
        static_cast<size_t>(std::min(kPeriod, segment.count - done)) *
        element_bytes_;
    if (std::memcmp(found, wanted, num_bytes) != 0) {
      for (size_t at = 0; at < num_bytes; at += element_bytes_) {
        wrong += std::memcmp(found + at, wanted + at, element_bytes_) != 0;
      }
    }
    found += num_bytes;
  }
  return wrong;
}

}  // namespace tutti
