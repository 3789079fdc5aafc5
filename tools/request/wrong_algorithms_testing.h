#ifndef TUTTI_TOOLS_REQUEST_WRONG_ALGORITHMS_TESTING_H_
#define TUTTI_TOOLS_REQUEST_WRONG_ALGORITHMS_TESTING_H_

#include <memory>

#include "tutti/implementation.h"

namespace tutti {

// For tests: an all-reduce whose schedule returns each rank's own input.
std::shared_ptr<const CollectiveFactory> ForgetfulAllReduce();

// For tests: a broadcast whose ranks all wait for data that the next rank never
// sends.
std::shared_ptr<const CollectiveFactory> EndlessBroadcast();

// For tests: an all-reduce without a schedule that refuses every request.
std::shared_ptr<const CollectiveFactory> RefusingAllReduce();

// For tests: a broadcast without a schedule. It refuses more than one element;
// with one element it does nothing and succeeds.
std::shared_ptr<const CollectiveFactory> FickleBroadcast();

// For tests: a broadcast without a schedule. Rank 1 refuses it; the other ranks
// do nothing and succeed.
std::shared_ptr<const CollectiveFactory> LopsidedBroadcast();

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_WRONG_ALGORITHMS_TESTING_H_
