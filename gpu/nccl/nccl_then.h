#ifndef TUTTI_GPU_NCCL_NCCL_THEN_H_
#define TUTTI_GPU_NCCL_NCCL_THEN_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gpu/nccl/nccl_within_task.h"
#include "schedule/engine/between_tasks.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// An all-reduce of several GPUs in each of several processes, in the three
// stages of a HierarchicalRun, chunk by chunk:
//
//   process 0     process 1
//   a b c         d e f        NCCL within each process
//   s - -  <--->  t - -        a schedule among their first members
//   S S S         S S S        final op, and NCCL within each process
//
// While the schedule has one chunk, NCCL reduces the next and spreads the one
// before. Each process has a communicator of its own, made by the first
// execution and freed with the group, so processes need not agree on an order
// of launches. A process with one member has no use for NCCL.
//
// All of it waits for what the members' compute streams held when they called;
// what is put there once all chunks are on the streams waits for it. `done`
// runs when the streams of this process are past it; the results of other
// processes may come later. An execution that fails ends the communicator, as
// of those of NCCL (NcclGroup).
class NcclThen : public CollectiveImplementationInterface {
 public:
  explicit NcclThen(std::unique_ptr<BetweenTasks> between) {
    plan_.between = std::move(between);
  }

  // Errors: as NcclCollective; INVALID_ARGUMENT for a process with members of
  // several tasks; those of the level between.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  NcclThenPlan plan_;
  std::once_flag once_;
  absl::Status status_;  // Of the first member's preparation.
};

// So much that a chunk's latency is little beside its time: at 10 GB/s between
// processes 0.4 ms, of which some 50 us are latency. Not measured.
inline constexpr int64_t kNcclThenChunkBytes = int64_t{4} << 20;

// The factory with which such a hybrid is registered:
//   REGISTER_COLLECTIVE(NcclThenRing, NcclThenFactory("RingReduce"));
// The program links that implementation too; else calls end with NOT_FOUND.
std::shared_ptr<const CollectiveFactory> NcclThenFactory(
    std::string between, int64_t chunk_bytes = kNcclThenChunkBytes);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_THEN_H_
