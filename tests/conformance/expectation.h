#ifndef TUTTI_TESTS_CONFORMANCE_EXPECTATION_H_
#define TUTTI_TESTS_CONFORMANCE_EXPECTATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedule/proof/expression.h"
#include "tests/conformance/case.h"
#include "tests/conformance/tested_implementation.h"
#include "tutti/schedule.h"

namespace tutti::conformance {

// The subdivisions of the case; where it leaves them open, those that the
// algorithm chooses for its size. None if the algorithm has no subdivisions.
std::vector<int> SubdivOffsetsOf(const Algorithm& algorithm, const Case& c);

// The outputs of a reduction whose schedule says in which order to sum.
struct ScheduledSums {
  // Chunks of each rank in the order of its output.
  std::vector<std::vector<ExpressionId>> outputs;
  absl::flat_hash_map<ExpressionId, Bytes> values;
};

// Inputs of a case in rank order. Ranks without an input have one here too, to
// show that no algorithm reads it.
using Inputs = std::vector<Bytes>;

// Random. Where no schedule says in which order `under_test` sums, all sums are
// exact.
std::shared_ptr<const Inputs> MakeInputs(
    const ImplementationUnderTest& under_test, const Case& c, uint64_t seed);

// Outputs that all members of a case must end with. Immutable.
//
// Movement is what the definition of the collective says. Reductions that are
// exact are the fold in rank order; sums and products of floats are, bit by
// bit, what the schedule specifies.
class Expectation {
 public:
  // Errors: INVALID_ARGUMENT if the algorithm's schedules do not run.
  static absl::StatusOr<std::shared_ptr<const Expectation>> Create(
      const ImplementationUnderTest& under_test, const Case& c,
      std::shared_ptr<const Inputs> inputs);

  const Bytes& input(int rank) const { return (*inputs_)[rank]; }

  // The rank's output, in pieces that follow each other; none where it has no
  // output.
  absl::Span<const absl::Span<const std::byte>> output(int rank) const {
    return outputs_[rank];
  }

 private:
  explicit Expectation(std::shared_ptr<const Inputs> inputs)
      : inputs_(std::move(inputs)) {}

  absl::Status SetReduced(const ImplementationUnderTest& under_test,
                          const Case& c);
  void SetMoved(const Case& c, int rank);

  const std::shared_ptr<const Inputs> inputs_;
  Inputs factored_;            // Products with the members' factors.
  std::vector<Bytes> folded_;  // By the number of inputs.
  ScheduledSums sums_;
  std::vector<std::vector<absl::Span<const std::byte>>> outputs_;
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_EXPECTATION_H_
