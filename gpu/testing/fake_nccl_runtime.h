#ifndef TUTTI_GPU_TESTING_FAKE_NCCL_RUNTIME_H_
#define TUTTI_GPU_TESTING_FAKE_NCCL_RUNTIME_H_

#include <atomic>
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

// NCCL for the GPUs of a FakeGpuRuntime, which are those of one process; for
// tests. Processes whose runtimes share a network can be in one communicator.
//
// A call on a stream reads its input when the stream comes to it, lets the
// stream go no further until the calls of all ranks have met, and then writes
// its output. Calls meet by their order on the communicator, sends and
// receives by their order between two ranks. What ranks call differently hangs,
// as does what the network is told to hang; Abort() lets the stream go on with
// nothing written. Two ranks on one GPU are refused, as by NCCL. Of a
// communicator ranks that were made in one call, and not finalized in one,
// never get ready.
//
// What a test with it does not prove: that NCCL takes the calls that we make,
// with these arguments, from these threads and on communicators that do not
// block; that it gets past an abort, how long that takes and what becomes of
// its kernels; which errors it reports, and when; that it hangs where this
// does: with an order that differs it may as well move the wrong bytes; the
// bits of sums, which depend on its algorithms (here they are added by rank);
// that different communicators do not wait for each other on a GPU, nor where
// they share none; and how fast anything is.
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
  // As the other one: no call waits, so that nothing is hung by a test.
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

  // From now on communicators block, in so far as only those of ranks of this
  // process are made. Before anything is called.
  void Block(std::string why) { why_blocking_ = std::move(why); }

  // How many were asked for that block.
  int num_blocking() const { return num_blocking_; }

 private:
  std::string why_blocking_;
  std::atomic<int> num_blocking_{0};
  const std::shared_ptr<FakeNcclNetwork> network_;
  FakeGpuRuntime* const gpus_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_NCCL_RUNTIME_H_
