#ifndef TUTTI_TOOLS_REQUEST_RANDOM_ELEMENTS_H_
#define TUTTI_TOOLS_REQUEST_RANDOM_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/request/workload.h"

namespace tutti {

// Random input elements in the workload's dtype. The result of the collective
// is exact, hence the same in every order of reduction, and shows whether each
// contribution is in it:
//  - moved data: any bits (bool: 0 and 1);
//  - integers: any bits, for they wrap around; but odd numbers for prod, and
//    for band and bor bits so rare that the result is seldom all alike;
//  - floats: sum and avg, whole numbers so small that the sum of all ranks has
//    no rounding; min and max, whole numbers; prod, 1/2, 1 and 2 of either
//    sign, or 1 and -1 where the product might overflow.
// The same seed gives the same elements.
std::vector<std::byte> RandomElements(const Workload& workload, int64_t count,
                                      uint64_t seed);

// Maximum number of ranks that can bring RandomElements() to a sum without
// rounding; the other ranks must bring zeros. At least group_size, except for
// float16 among more than 2048 ranks and bfloat16 among more than 256.
int MaxExactRanks(const Workload& workload);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_RANDOM_ELEMENTS_H_
