#ifndef TUTTI_GPU_NCCL_NCCL_THEN_H_
#define TUTTI_GPU_NCCL_NCCL_THEN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tutti/implementation.h"

namespace tutti {

// All-reduce of several GPUs in each of several processes, in the three stages
// of a HierarchicalRun, chunk by chunk:
//
//   process 0     process 1
//   a b c         d e f        NCCL within each process
//   s - -  <--->  t - -        a schedule among their first members
//   S S S         S S S        final op, and NCCL within each process
//
// While the schedule has a chunk, NCCL reduces the next chunk and spreads the
// one before. Each process has a separate communicator, made by the first
// execution and freed with the group. Processes therefore need no common order
// of launches. A process with one member does not use NCCL.
//
// The execution waits for the work that the members' compute streams held when
// the members called. Work put there after all chunks are on the streams waits
// for the execution. `done` runs when the streams of this process have passed
// it; results of other processes may come later. A failed execution ends the
// communicator, as with NCCL's collectives (NcclGroup).

// Large enough to make a chunk's latency small: 0.4 ms at 10 GB/s between
// processes, including some 50 us of latency. Not measured.
inline constexpr int64_t kNcclThenChunkBytes = int64_t{4} << 20;

// Factory for registering a hybrid:
//   REGISTER_COLLECTIVE(NcclThenRing, NcclThenFactory("RingReduce"));
// The program must also link the implementation named `between`; otherwise
// calls end with NOT_FOUND.
std::shared_ptr<const CollectiveFactory> NcclThenFactory(
    std::string between, int64_t chunk_bytes = kNcclThenChunkBytes);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_THEN_H_
