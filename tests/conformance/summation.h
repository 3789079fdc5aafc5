#ifndef TUTTI_TESTS_CONFORMANCE_SUMMATION_H_
#define TUTTI_TESTS_CONFORMANCE_SUMMATION_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedule/proof/expression.h"
#include "tests/conformance/case.h"
#include "tests/conformance/elements.h"
#include "tutti/schedule.h"

// Results of reductions of the ranks' inputs, by scalar arithmetic.

namespace tutti::conformance {

// The subdivisions of the case; where it leaves them open, those that the
// algorithm chooses for its size. None if the algorithm has no subdivisions.
std::vector<int> SubdivOffsetsOf(const Algorithm& algorithm, const Case& c);

// into = left (+) right. Errors: those of a custom op.
void Merge(const Case& c, absl::Span<const std::byte> left,
           absl::Span<const std::byte> right, Bytes* into);

// into = (operands[0] (+) operands[1] (+) ..., in order) / divisor, with
// built-in ops rounded once. At least two; `into` is none of them. REQUIRES:
// `divisor` is 1 for merge ops of the caller. Errors: as Merge().
void MergeMany(const Case& c,
               absl::Span<const absl::Span<const std::byte>> operands,
               int64_t divisor, Bytes* into);

// Applies the case's final op, in a step of its own.
void Finish(const Case& c, Bytes* values);

// The whole vector, reduced in rank order. What is exact has this result in any
// order.
Bytes FoldedInRankOrder(const Case& c, absl::Span<const Bytes> inputs);

// The outputs of a reduction whose schedule says in which order to sum.
struct ScheduledSums {
  // Chunks of each rank in the order of its output.
  std::vector<std::vector<ExpressionId>> outputs;
  absl::flat_hash_map<ExpressionId, Bytes> values;
};

// Errors: INVALID_ARGUMENT if the schedules do not run (verifier.h).
absl::StatusOr<ScheduledSums> SumAsScheduled(const Algorithm& algorithm,
                                             const Case& c,
                                             absl::Span<const Bytes> inputs);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_SUMMATION_H_
