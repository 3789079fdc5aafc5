#ifndef TUTTI_BENCH_GPU_PLANTED_FAULTS_H_
#define TUTTI_BENCH_GPU_PLANTED_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Faults that the doubles of the checks can have, by name:
//   reduce      A reduction leaves out its last element.
//   copy        A copy writes a byte more.
//   misaligned  A copy writes a byte less, if its input is not aligned.
//   order       No stream waits for events.
//   staging     Kernels do not read pinned memory to the end.
//   early_call  The host is called before the stream comes there.
//   no_call     The host is never called.
//   wait        A launch returns when the stream is past it.
//   graph       A graph does nothing.
//   nccl        A call of NCCL leaves out its last element.
//   nccl_init   The first communicator fails.
//   slow_abort  An abort of NCCL takes 6 s.
//   hasty_init  NCCL makes communicators of one rank.
using Fault = std::string;

class FaultyGpuRuntime : public FakeGpuRuntime {
 public:
  FaultyGpuRuntime(Fault fault, SimulatedEnvironment& environment,
                   Options options)
      : FakeGpuRuntime(std::move(options)),
        fault_(std::move(fault)),
        environment_(environment) {}

  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override {
    GpuReduction launched = reduction;
    if (launched.num_elements > 1 &&
        (fault_ == "reduce" || LacksPinned(launched.inputs))) {
      --launched.num_elements;
    }
    return Launched(FakeGpuRuntime::LaunchReduce(launched, stream), stream);
  }
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override {
    GpuCopy launched = copy;
    if (fault_ == "copy") ++launched.num_bytes;
    const auto address = reinterpret_cast<uintptr_t>(launched.input);
    if ((fault_ == "misaligned" && address % 16 != 0) ||
        LacksPinned({launched.input})) {
      --launched.num_bytes;
    }
    return Launched(FakeGpuRuntime::LaunchCopy(launched, stream), stream);
  }
  absl::Status WaitForEvent(GpuStream stream, GpuEvent event) override {
    if (fault_ == "order") return absl::OkStatus();
    return FakeGpuRuntime::WaitForEvent(stream, event);
  }
  absl::Status CallHost(StatusCallback call, GpuStream stream) override {
    if (fault_ == "early_call") {
      std::move(call)(absl::OkStatus());
      return absl::OkStatus();
    }
    if (fault_ == "no_call") {
      never_.push_back(std::move(call));
      return absl::OkStatus();
    }
    return FakeGpuRuntime::CallHost(std::move(call), stream);
  }
  absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                              int gpu) override {
    auto memory = FakeGpuRuntime::AllocatePinned(num_bytes, gpu);
    if (memory.ok()) pinned_.emplace(memory->data, num_bytes);
    return memory;
  }

 private:
  absl::Status Launched(absl::Status status, GpuStream stream) {
    if (!status.ok() || fault_ != "wait") return status;
    ASSIGN_OR_RETURN(auto event, NewEvent(*this, stream.gpu));
    status = RecordEvent(event.get(), stream);
    while (status.ok() && !*IsDone(event.get())) {
      environment_.RunAll();
      environment_.Advance(absl::Seconds(1));
    }
    return status;
  }

  // Returns whether kernels do not read one of the inputs to the end.
  bool LacksPinned(absl::Span<const void* const> inputs) const {
    return fault_ == "staging" &&
           absl::c_any_of(inputs, [&](const void* input) {
             const auto next = pinned_.upper_bound(input);
             if (next == pinned_.begin()) return false;
             const auto& [begin, num_bytes] = *std::prev(next);
             return input < static_cast<const std::byte*>(begin) + num_bytes;
           });
  }

  const Fault fault_;
  SimulatedEnvironment& environment_;
  std::vector<StatusCallback> never_;
  std::map<const void*, size_t> pinned_;  // Sizes by first address.
};

class FaultyNcclRuntime : public FakeNcclRuntime {
 public:
  FaultyNcclRuntime(Fault fault, SimulatedEnvironment& environment,
                    std::shared_ptr<FakeNcclNetwork> network,
                    FakeGpuRuntime* gpus)
      : FakeNcclRuntime(network, gpus),
        fault_(std::move(fault)),
        environment_(environment) {
    if (fault_ == "nccl_init") {
      network->FailNextInit(absl::InternalError("a planted fault"));
    }
  }

  absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int size,
      absl::Span<const NcclRank> ranks) override {
    return FakeNcclRuntime::CommInitRanks(id, fault_ == "hasty_init" ? 1 : size,
                                          ranks);
  }
  absl::Status Launch(absl::Span<const NcclPart> parts) override {
    if (fault_ != "nccl") return FakeNcclRuntime::Launch(parts);
    std::vector<NcclPart> launched(parts.begin(), parts.end());
    for (NcclPart& part : launched) {
      for (NcclCall& call : part.calls) --call.num_elements;
    }
    return FakeNcclRuntime::Launch(launched);
  }
  absl::Status Abort(absl::Span<const NcclComm> comms) override {
    if (fault_ == "slow_abort") environment_.Advance(absl::Seconds(6));
    return FakeNcclRuntime::Abort(comms);
  }

 private:
  const Fault fault_;
  SimulatedEnvironment& environment_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_PLANTED_FAULTS_H_
