#ifndef TUTTI_REMOTE_MPI_MPI_CHOICE_H_
#define TUTTI_REMOTE_MPI_MPI_CHOICE_H_

#include "absl/strings/string_view.h"
#include "framework/implementation_traits.h"

// What the choice of algorithms knows of MPI; for programs without it, too.
namespace tutti {

// Who runs collectives of MPI (CollectiveDelegate::name()).
inline constexpr absl::string_view kMpiDelegate = "MPI";

// What messages cost between processes of one host. A small one took 11 us
// between two with a processor each; between 4 and 8 processes that share 2
// processors an all-reduce by RecursiveDoublingReduce and one by
// RecursiveHalvingDoublingReduce, whose messages are twice as many and carry
// fewer bytes, took the same time at some 128 KiB, which is where they do so by
// these numbers (Open MPI 4.1.4, Intel Xeon, 25 November 2026). The gap is a
// guess: one thread sends all of a process's.
inline constexpr CostModel kMpiCostOnOneHost = {
    .between = {.latency_seconds = 11e-6, .bytes_per_second = 2.5e9},
    .between_gap_seconds = 5e-6};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_CHOICE_H_
