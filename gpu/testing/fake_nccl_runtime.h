#ifndef TUTTI_GPU_TESTING_FAKE_NCCL_RUNTIME_H_
#define TUTTI_GPU_TESTING_FAKE_NCCL_RUNTIME_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"

namespace tutti {

// Double of NCCL for the GPUs of a FakeGpuRuntime, which belong to one process;
// for tests. Processes whose runtimes share a network can share a communicator.
//
// A call on a stream reads its input when the stream reaches it. It stops the
// stream until the calls of all ranks have met, and then writes its output.
// Collectives meet by their order on the communicator, sends and receives by
// their order between two ranks. Differing calls hang, and so do calls under
// FakeNcclNetwork::HangLaunches(). Abort() lets the stream go on without
// output.
//
// Two ranks on one GPU are refused, as by NCCL. Ranks made in one call must be
// finalized in one call; otherwise they never get ready.
//
// Tests with it do not prove:
// - that NCCL accepts our calls, with these arguments, from these threads and
//   on communicators that do not block;
// - that NCCL survives an abort, how long it takes and what happens to kernels;
// - which errors NCCL reports, and when;
// - that NCCL hangs in the same cases: in a different order it may as well move
//   the wrong bytes;
// - the bits of sums, which depend on NCCL's algorithms (here: added by rank);
// - that communicators do not wait for each other, on a shared GPU or not;
// - speed.
//
// Thread-safe. The GPUs' runtime outlives it.
class FakeNcclRuntime : public NcclRuntime {
 public:
  FakeNcclRuntime(std::shared_ptr<FakeNcclNetwork> network,
                  FakeGpuRuntime* gpus)
      : network_(std::move(network)), gpus_(gpus) {}

  std::string Version() override { return "2.28.9"; }
  const std::string& WhyBlocking() override { return why_blocking_; }
  absl::StatusOr<std::string> NewUniqueId() override {
    return network_->NewId();
  }
  absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int size,
      absl::Span<const NcclRank> ranks) override;
  // Does not block either: a test cannot hang in it.
  absl::StatusOr<std::vector<NcclComm>> CommInitBlocking(
      absl::Span<const NcclRank> ranks) override;
  absl::StatusOr<bool> IsReady(NcclComm comm) override {
    return network_->IsReady(comm);
  }
  absl::Status Launch(absl::Span<const NcclPart> parts) override;
  absl::Status Finalize(absl::Span<const NcclComm> comms) override {
    return network_->Finalize(comms);
  }
  absl::Status Destroy(absl::Span<const NcclComm> comms) override {
    return network_->Destroy(comms);
  }
  absl::Status Abort(absl::Span<const NcclComm> comms) override {
    return network_->Abort(comms);
  }

  // Makes communicators count as blocking: only those with all ranks in this
  // process can be made. Call first.
  void Block(std::string why) { why_blocking_ = std::move(why); }

 private:
  std::string why_blocking_;
  const std::shared_ptr<FakeNcclNetwork> network_;
  FakeGpuRuntime* const gpus_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_NCCL_RUNTIME_H_
