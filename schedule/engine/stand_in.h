#ifndef TUTTI_SCHEDULE_ENGINE_STAND_IN_H_
#define TUTTI_SCHEDULE_ENGINE_STAND_IN_H_

#include <string>

#include "absl/status/statusor.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// What tools show, prove and simulate of an implementation: an algorithm in
// which data take the same ways, and are reduced in the same order, and so to
// the same bits. It need not be what runs.
struct StandIn {
  Algorithm algorithm;

  // For people, half a sentence: what is otherwise where the implementation
  // runs. Empty: nothing.
  std::string note;
};

// What a factory implements besides, where its implementation is code and yet
// something can stand for it. Never what Scheduled() makes, which stands for
// itself.
class HasStandIn {
 public:
  virtual ~HasStandIn() = default;

  // Errors: why there is none, as where a part of it is not linked.
  virtual absl::StatusOr<StandIn> MakeStandIn() const = 0;
};

// The algorithm behind a factory (AlgorithmOf()), or what stands for it.
// Errors: UNIMPLEMENTED if it has neither; those of CheckParts() and
// MakeStandIn().
absl::StatusOr<StandIn> StandInOf(const CollectiveFactory& factory);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_STAND_IN_H_
