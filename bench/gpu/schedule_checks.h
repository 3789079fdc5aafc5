#ifndef TUTTI_BENCH_GPU_SCHEDULE_CHECKS_H_
#define TUTTI_BENCH_GPU_SCHEDULE_CHECKS_H_

#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/local_checks.h"

namespace tutti {

// What every registered implementation that is made of steps does in groups of
// this shape: one check for each. They run the cases of tests/conformance/ and
// compare with what it expects, bit by bit. On one GPU also that the host puts
// all steps of a ring on the streams before any has run, and is called by each
// once (TraceRing()).
std::vector<Check> ScheduleChecks(const GroupShape& shape,
                                  const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SCHEDULE_CHECKS_H_
