#ifndef TUTTI_TOOLS_REQUEST_TEST_DATA_H_
#define TUTTI_TOOLS_REQUEST_TEST_DATA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tools/request/workload.h"

namespace tutti {

// Inputs of the ranks of a workload, and their expected outputs: random
// elements (random_elements.h) that repeat with period kPeriod. The period
// makes any number of elements cheap to write and compare. It is prime, so that
// it never aligns with blocks, chunks or vectors. Each rank starts at a
// different phase.
//
// Thread-safe once constructed. The same seed gives the same data.
class TestData {
 public:
  static constexpr int64_t kPeriod = 65521;  // The largest prime below 2^16.

  // Copies bytes as memcpy does, for example to a device.
  using Copy = void (*)(std::byte* into, const std::byte* from,
                        size_t num_bytes);

  // `with_results`: also computes the expected outputs, which costs a reduction
  // of all inputs.
  TestData(const Workload& workload, uint64_t seed, bool with_results);

  // Writes the rank's InputElements() elements.
  void WriteInput(int rank, std::byte* into, Copy copy) const;

  // Number of wrong elements in the rank's output. REQUIRES: with_results.
  int64_t CountWrong(int rank, absl::Span<const std::byte> output) const;

 private:
  // Two periods, so that a period from any start is contiguous.
  using Periods = std::vector<std::byte>;

  Periods Reduction() const;
  const Periods& BroughtBy(int rank) const;
  int64_t PhaseOf(int source) const;

  // Address of element `begin` of the source's data, followed by the next
  // kPeriod elements.
  const std::byte* Find(int source, int64_t begin) const;

  int64_t CountWrong(const Segment& segment, const std::byte* found) const;

  const Workload workload_;
  const size_t element_bytes_;

  // Every stride_-th rank brings random_, the others bring zeros_:
  // random_elements.h explains why.
  const int stride_;
  const int offset_;
  const Periods random_;
  const Periods zeros_;
  const Periods reduction_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_TEST_DATA_H_
