#ifndef TUTTI_BENCH_GPU_RAW_NCCL_H_
#define TUTTI_BENCH_GPU_RAW_NCCL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/gpu/suite_machine.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// NCCL as a program uses it that has no Tutti: a communicator of the first GPUs
// of this process, one rank on each, and a stream for each. What comes between
// a caller and NCCL's functions is NcclRuntime alone.
//
// Belongs to one thread. The machine outlives it.
class RawNccl {
 public:
  // Those of Tutti's communicators do not, but where all do
  // (NcclRuntime::WhyBlocking()).
  enum class Calls { kDoNotBlock, kBlock };

  // Returns when the communicator is made. Errors: as NcclRuntime;
  // DEADLINE_EXCEEDED if it is not made in a minute and its calls do not block.
  static absl::StatusOr<std::unique_ptr<RawNccl>> Create(
      SuiteMachine& machine, std::shared_ptr<NcclRuntime> nccl, int num_gpus,
      Calls calls);

  // Waits for what was launched.
  ~RawNccl();
  RawNccl(const RawNccl&) = delete;
  RawNccl& operator=(const RawNccl&) = delete;

  GpuStream stream(int rank) const { return streams_[rank].get(); }

  // A call of each rank, on its stream. Returns when they are on the streams.
  // REQUIRES: one for each rank.
  absl::Status Launch(absl::Span<const NcclCall> calls);

  // Waits for all streams.
  absl::Status Finish();

 private:
  RawNccl(SuiteMachine& machine, std::shared_ptr<NcclRuntime> nccl)
      : machine_(machine), nccl_(std::move(nccl)) {}

  absl::Status Init(int num_gpus, Calls calls);
  absl::StatusOr<std::vector<NcclComm>> InitNotBlocking(
      absl::Span<const NcclRank> ranks);
  absl::Status AwaitReady();
  absl::Status Pause();

  SuiteMachine& machine_;
  const std::shared_ptr<NcclRuntime> nccl_;
  std::vector<OwnedGpuStream> streams_;
  std::vector<NcclComm> comms_;
  std::vector<NcclPart> parts_;  // Of the launch: memory that is used again.
  absl::Status status_;          // Of the communicator.
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_RAW_NCCL_H_
