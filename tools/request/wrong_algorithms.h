#ifndef TUTTI_TOOLS_REQUEST_WRONG_ALGORITHMS_H_
#define TUTTI_TOOLS_REQUEST_WRONG_ALGORITHMS_H_

#include <memory>

#include "tutti/implementation.h"

namespace tutti {

// For tests: an all-reduce whose schedule gives everyone their own input.
std::shared_ptr<const CollectiveFactory> ForgetfulAllReduce();

// For tests: a broadcast whose ranks all wait for what the next never sends.
std::shared_ptr<const CollectiveFactory> EndlessBroadcast();

// For tests: an all-reduce, no schedule, that refuses every request.
std::shared_ptr<const CollectiveFactory> RefusingAllReduce();

// For tests: a broadcast, no schedule, that refuses more than one element, and
// does nothing with one.
std::shared_ptr<const CollectiveFactory> FickleBroadcast();

// For tests: a broadcast, no schedule, that rank 1 refuses, while the others do
// nothing and are done.
std::shared_ptr<const CollectiveFactory> LopsidedBroadcast();

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_WRONG_ALGORITHMS_H_
