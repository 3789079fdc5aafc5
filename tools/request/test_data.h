#ifndef TUTTI_TOOLS_REQUEST_TEST_DATA_H_
#define TUTTI_TOOLS_REQUEST_TEST_DATA_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/tensor.h"

namespace tutti {

// Random input elements in the workload's dtype. The result of the collective
// is exact, hence the same in every order of reduction, and shows whether each
// contribution is in it:
//  - moved data: any bits (bool: 0 and 1);
//  - integers: any bits, for they wrap around; but odd numbers for prod, and
//    for band and bor bits so rare that the result is seldom all alike;
//  - floats: sum and avg, whole numbers so small that the sum of all ranks has
//    no rounding; min and max, whole numbers; prod, 1/2, 1 and 2 of either
//    sign, or 1 and -1 where the product might overflow;
//  - complex numbers: parts like floats; prod, real numbers above 0.
// The same seed gives the same elements.
std::vector<std::byte> RandomElements(const Workload& workload, int64_t count,
                                      uint64_t seed);

// Maximum number of ranks that can bring RandomElements() to a sum without
// rounding; the other ranks must bring zeros. At least group_size, except for
// float16 among more than 2048 ranks, bfloat16 among more than 256,
// float8_e4m3fn among more than 16, and float8_e5m2 among more than 8.
int MaxExactRanks(const Workload& workload);

// Reference result of a reduction, computed one element after the other in
// double, in 64-bit integers, or in 128 bits for averages of integers, and
// rounded once at the end. Equals the library's result if that is exact, as on
// RandomElements(). Shares no code with the library's kernels.
class ReferenceReduction {
 public:
  // The dtype must support the operation.
  ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                     int64_t num_elements);

  // Adds the input of the next rank.
  void Add(absl::Span<const std::byte> elements);

  std::vector<std::byte> Result() const;

 private:
  const CollectiveSpec spec_;
  const DType dtype_;
  int num_added_ = 0;
  // Values of the dtype's elements (ValueOf, element.h), in 128 bits for
  // averages of integers.
  std::variant<std::vector<double>, std::vector<int64_t>, std::vector<uint64_t>,
               std::vector<absl::int128>, std::vector<std::complex<double>>>
      values_;
};

// Inputs of the ranks of a workload, and their expected outputs: random
// elements (RandomElements()) that repeat with period kPeriod. The period
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
  // of all inputs. (CountWrong() does so for each output of a scan.)
  TestData(const Workload& workload, uint64_t seed, bool with_results);

  // Writes the rank's InputElements() elements.
  void WriteInput(int rank, std::byte* into, Copy copy) const;

  // Number of wrong elements in the rank's output. REQUIRES: with_results.
  int64_t CountWrong(int rank, absl::Span<const std::byte> output) const;

 private:
  // Two periods, so that a period from any start is contiguous.
  using Periods = std::vector<std::byte>;

  // Reduction of the inputs of the first ranks.
  Periods ReductionOf(int num_ranks) const;

  const Periods& BroughtBy(int rank) const;
  static int64_t PhaseOf(int rank);

  // Address of element `begin` of periodic data, followed by the next kPeriod
  // elements.
  const std::byte* Find(const Periods& periods, int64_t begin) const;

  // Counts the wrong elements of a segment; `reduction` is that of the rank.
  int64_t CountWrong(const Segment& segment, const Periods& reduction,
                     const std::byte* found) const;

  const Workload workload_;
  const size_t element_bytes_;

  // Every stride_-th rank brings random_, the others bring zeros_:
  // MaxExactRanks() explains why.
  const int stride_;
  const int offset_;
  const Periods random_;
  const Periods zeros_;
  const Periods reduction_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_TEST_DATA_H_
