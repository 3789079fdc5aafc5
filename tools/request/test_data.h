#ifndef TUTTI_TOOLS_REQUEST_TEST_DATA_H_
#define TUTTI_TOOLS_REQUEST_TEST_DATA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tools/request/workload.h"

namespace tutti {

// What the ranks of a workload bring, and what they must get: random elements
// (random_elements.h) that repeat. The period makes it cheap to write and to
// compare any number of elements; it is prime, so that it is never in step with
// blocks, chunks or vectors, and each rank begins elsewhere in it.
//
// Thread-safe once constructed. The same seed gives the same data.
class TestData {
 public:
  static constexpr int64_t kPeriod = 65521;  // The largest prime below 2^16.

  // How elements get where they belong, as memcpy does it.
  using Copy = void (*)(std::byte* into, const std::byte* from,
                        size_t num_bytes);

  // `with_results`: also what ranks must get, which takes reducing what they
  // bring.
  TestData(const Workload& workload, uint64_t seed, bool with_results);

  // Writes what the rank brings, InputElements() of it.
  void WriteInput(int rank, std::byte* into, Copy copy) const;

  // How many elements of the rank's output are not what they must be.
  // REQUIRES: with_results.
  int64_t CountWrong(int rank, absl::Span<const std::byte> output) const;

 private:
  // Two periods, so that one from anywhere lies in one piece.
  using Periods = std::vector<std::byte>;

  Periods Reduction() const;
  const Periods& BroughtBy(int rank) const;
  int64_t PhaseOf(int source) const;

  // Where the element `begin` of what the source has stands, and the kPeriod
  // after it.
  const std::byte* Find(int source, int64_t begin) const;

  int64_t CountWrong(const Segment& segment, const std::byte* found) const;

  const Workload workload_;
  const size_t element_bytes_;

  // One rank in so many brings random_, the others zeros_: random_elements.h.
  const int stride_;
  const int offset_;
  const Periods random_;
  const Periods zeros_;
  const Periods reduction_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_TEST_DATA_H_
