#ifndef TUTTI_SCHEDULE_ALGORITHM_H_
#define TUTTI_SCHEDULE_ALGORITHM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/implementation_traits.h"
#include "framework/registry.h"
#include "schedule/plan.h"  // IWYU pragma: export

namespace tutti {

// The factory with which an algorithm is registered:
//   REGISTER_COLLECTIVE(RingReduce, Scheduled({.traits = ..., .plan = Plan}));
// Null, which cannot be registered, if there is no plan function.
std::shared_ptr<const CollectiveFactory> Scheduled(Algorithm algorithm);

// The algorithm behind a factory; null if it was not made by Scheduled().
const Algorithm* AlgorithmOf(const CollectiveFactory& factory);

// OK if it runs on all devices, in all groups, with all ops, and to the same
// bits for a fixed layout: what it is a part of says so of itself. Errors:
// INVALID_ARGUMENT, with the name, that says what it is not.
absl::Status CheckFitsAsPart(absl::string_view name,
                             const ImplementationTraits& traits);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ALGORITHM_H_
