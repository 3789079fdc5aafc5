#include "tools/request/test_data.h"

#include <algorithm>
#include <cstring>

#include "tools/request/random_elements.h"
#include "tools/request/reference_reduction.h"

namespace tutti {
namespace {

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

TestData::TestData(const Workload& workload, uint64_t seed, bool with_results)
    : workload_(workload),
      element_bytes_(SizeOf(workload.dtype)),
      stride_(StrideOf(workload)),
      offset_(static_cast<int>(seed % static_cast<uint64_t>(stride_))),
      random_(Doubled(RandomElements(workload, kPeriod, seed))),
      zeros_(stride_ == 1 ? 0 : random_.size()),
      reduction_(with_results ? Reduction() : Periods()) {}

TestData::Periods TestData::Reduction() const {
  if (!Reduces(workload_.spec.type)) return {};
  const int64_t count = std::min(workload_.count, kPeriod);
  ReferenceReduction reduction(workload_.spec, workload_.dtype, count);
  for (int rank = 0; rank < workload_.group_size; ++rank) {
    reduction.Add({Find(rank, 0), static_cast<size_t>(count) * element_bytes_});
  }
  Periods one_period = reduction.Result();
  one_period.resize(kPeriod * element_bytes_);
  return Doubled(std::move(one_period));
}

const TestData::Periods& TestData::BroughtBy(int rank) const {
  return rank % stride_ == offset_ ? random_ : zeros_;
}

int64_t TestData::PhaseOf(int source) const {
  constexpr int64_t kStep = 7919;  // Any number that kPeriod does not divide.
  return source == Segment::kReduction ? 0 : source * kStep % kPeriod;
}

const std::byte* TestData::Find(int source, int64_t begin) const {
  const Periods& periods =
      source == Segment::kReduction ? reduction_ : BroughtBy(source);
  const int64_t index = (begin % kPeriod + PhaseOf(source)) % kPeriod;
  return periods.data() + static_cast<size_t>(index) * element_bytes_;
}

void TestData::WriteInput(int rank, std::byte* into, Copy copy) const {
  const int64_t count = InputElements(workload_, rank);
  const std::byte* period = Find(rank, 0);
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
  int64_t wrong = 0;
  const std::byte* found = output.data();
  for (const Segment& segment : ExpectedOutput(workload_, rank)) {
    wrong += CountWrong(segment, found);
    found += static_cast<size_t>(segment.count) * element_bytes_;
  }
  return wrong;
}

int64_t TestData::CountWrong(const Segment& segment,
                             const std::byte* found) const {
  int64_t wrong = 0;
  for (int64_t done = 0; done < segment.count; done += kPeriod) {
    const std::byte* wanted = Find(segment.source, segment.begin + done);
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
