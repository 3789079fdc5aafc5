#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_CHOICE_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_CHOICE_H_

#include "absl/strings/string_view.h"
#include "tutti/implementation.h"

// Facts about MPI for the choice of algorithms; also for programs without MPI.
namespace tutti {

// Name of the delegate that runs collectives of MPI
// (CollectiveDelegate::name()).
inline constexpr absl::string_view kMpiDelegate = "MPI";

// Costs of messages between processes of one host. Where each has a processor,
// fitted to all-reduces among 2, 4 and 8 on 16 (Open MPI 4.1.4, Intel Xeon, 26
// November 2026, bench/results/mpi.md). From some MiB on what is set aside
// leaves the caches: then who reads the memory of others block by block, and
// reduces each at once, is ahead where processes share processors, and level
// elsewhere.
//
// Where they share processors, which each gives up when it finds nothing to do,
// a message waits for its receiver's turn, and who has the processors does best
// with few of them. Fitted to all-reduces among 4 and 8 on 2 processors, 26
// November 2026 (bench/results/mpi.md).
inline CostModel MpiCostOnOneHost(int num_processes, int num_processors) {
  if (num_processes <= num_processors) {
    return {.between = {.latency_seconds = 14e-6, .bytes_per_second = 4.2e9},
            .between_gap_seconds = 2.5e-6,
            .set_aside_bytes_per_second = 100e9};
  }
  const double turns = static_cast<double>(num_processes) / num_processors;
  return {
      .between = {.latency_seconds = 15e-6 * turns, .bytes_per_second = 2.5e9},
      .between_gap_seconds = 5e-6,
      .set_aside_bytes_per_second = 100e9,
      .shared = {.num = num_processors,
                 .message = {.latency_seconds = 8e-6 * turns,
                             .bytes_per_second = 4.25e9}}};
}

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_CHOICE_H_
