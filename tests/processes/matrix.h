#ifndef TUTTI_TESTS_PROCESSES_MATRIX_H_
#define TUTTI_TESTS_PROCESSES_MATRIX_H_

#include "absl/status/status.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Runs every collective by every algorithm that can serve the devices of all
// tasks, with lengths from 7 elements to 1 MiB, and checks every element.
// Dtypes and reductions take turns. All tasks of a cluster that has joined call
// it. Algorithms of CPU devices alone, which no other library runs.
//
// Blocks. Errors: the first one, naming the case; DATA_LOSS if elements are
// wrong.
absl::Status RunMatrix(ClusterRuntime& runtime, const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESSES_MATRIX_H_
