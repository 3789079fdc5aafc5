#ifndef TUTTI_SCHEDULE_ENGINE_STAND_IN_H_
#define TUTTI_SCHEDULE_ENGINE_STAND_IN_H_

#include <string>

#include "absl/status/statusor.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// An algorithm that tools show, prove and simulate in place of an
// implementation. Its data take the same ways and are reduced in the same
// order, to the same bits. The implementation need not run this algorithm.
struct StandIn {
  Algorithm algorithm;

  // Half a sentence for people: how the implementation differs when it runs.
  // Empty: it does not differ.
  std::string note;
};

// A second interface of factories whose implementation is code but has a
// stand-in. Factories of Scheduled() never implement it, because their
// algorithm is known.
class HasStandIn {
 public:
  virtual ~HasStandIn() = default;

  // Errors: the reason why there is no stand-in, for example a part that is not
  // linked.
  virtual absl::StatusOr<StandIn> MakeStandIn() const = 0;
};

// Returns the algorithm of a factory (AlgorithmOf()), or its stand-in. Errors:
// UNIMPLEMENTED if it has neither; errors of CheckParts() and MakeStandIn().
absl::StatusOr<StandIn> StandInOf(const CollectiveFactory& factory);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_STAND_IN_H_
