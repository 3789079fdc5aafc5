#include "gpu/testing/fake_nccl_runtime.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using Unit = FakeNcclNetwork::Unit;

// Returns bytes of a rank's memory, which must be on its GPU, as NCCL's kernels
// demand.
absl::StatusOr<uint8_t*> Access(FakeGpuMemory& memory, int gpu,
                                const void* address, size_t num_bytes) {
  if (memory.OwnerOf(address) != gpu) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL on GPU ", gpu, " is given memory of GPU ",
                     memory.OwnerOf(address)));
  }
  return memory.Access(address, num_bytes);
}

absl::StatusOr<std::vector<Bytes>> ReadInputs(FakeGpuMemory& memory, int gpu,
                                              const Unit& unit, int size) {
  std::vector<Bytes> inputs;
  for (const NcclCall& call : unit.calls) {
    Bytes& input = inputs.emplace_back();
    if (call.input == nullptr) continue;
    const size_t times = call.op == NcclOp::kReduceScatter ? size : 1;
    const size_t num_bytes = times * call.num_elements * SizeOf(call.dtype);
    ASSIGN_OR_RETURN(const uint8_t* const from,
                     Access(memory, gpu, call.input, num_bytes));
    input.assign(from, from + num_bytes);
  }
  return inputs;
}

absl::Status WriteOutputs(FakeGpuMemory& memory, int gpu, const Unit& unit,
                          const std::vector<Bytes>& outputs) {
  for (size_t i = 0; i < unit.calls.size(); ++i) {
    if (outputs[i].empty() || unit.calls[i].output == nullptr) continue;
    ASSIGN_OR_RETURN(
        uint8_t* const into,
        Access(memory, gpu, unit.calls[i].output, outputs[i].size()));
    std::copy(outputs[i].begin(), outputs[i].end(), into);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<NcclComm>> FakeNcclRuntime::CommInitRanks(
    const std::string& id, int size, absl::Span<const NcclRank> ranks) {
  if (!why_blocking_.empty() && static_cast<int>(ranks.size()) < size) {
    return absl::FailedPreconditionError(why_blocking_);
  }
  return network_->Init(id, size, ranks, /*host=*/gpus_);
}

absl::StatusOr<std::vector<NcclComm>> FakeNcclRuntime::CommInitBlocking(
    absl::Span<const NcclRank> ranks) {
  ASSIGN_OR_RETURN(const std::string id, network_->NewId());
  return network_->Init(id, static_cast<int>(ranks.size()), ranks,
                        /*host=*/gpus_);
}

absl::Status FakeNcclRuntime::Launch(absl::Span<const NcclPart> parts) {
  absl::Status status = network_->BeginGroup();
  for (const NcclPart& part : parts) {
    if (!status.ok()) return status;
    ASSIGN_OR_RETURN(const FakeNcclNetwork::UnitPtr unit,
                     network_->Begin(part, gpus_->Waker()));
    const int gpu = part.stream.gpu;
    const int size = network_->SizeOf(part.comm);
    status.Update(gpus_->Put(part.stream,
                             [network = network_, unit, gpu,
                              size](FakeGpuMemory& all) -> absl::Status {
                               ASSIGN_OR_RETURN(
                                   const auto inputs,
                                   ReadInputs(all, gpu, *unit, size));
                               network->Arrive(unit, inputs);
                               return absl::OkStatus();
                             }));
    status.Update(gpus_->PutGate(part.stream, unit->gate));
    status.Update(gpus_->Put(
        part.stream, [network = network_, unit, gpu](FakeGpuMemory& all) {
          const std::vector<Bytes>* const outputs = network->OutputsOf(*unit);
          if (outputs == nullptr) return absl::OkStatus();
          return WriteOutputs(all, gpu, *unit, *outputs);
        }));
  }
  return status;
}

}  // namespace tutti
