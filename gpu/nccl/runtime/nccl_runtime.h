#ifndef TUTTI_GPU_NCCL_RUNTIME_NCCL_RUNTIME_H_
#define TUTTI_GPU_NCCL_RUNTIME_NCCL_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "gpu/nccl/runtime/nccl_turns.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Library named by devices with NCCL (DeviceAttributes::libraries).
inline constexpr char kNcclLibrary[] = "NCCL";

// Named in addition if communicators of the device need not block.
inline constexpr char kNcclAmongTasks[] = "NCCL among tasks";

// Size of a unique id (NCCL_UNIQUE_ID_BYTES).
inline constexpr size_t kNcclIdBytes = 128;

// End of a communicator at one rank. Opaque to all but its runtime.
struct NcclComm {
  void* handle = nullptr;
};

// A communicator's rank in this process.
struct NcclRank {
  int rank = 0;
  int gpu = 0;
};

enum class NcclOp : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kSend,
  kRecv,
};

// Call of one rank. Input and output follow NCCL's rules: a call is in place if
// they are the same memory, or for gathers and scatters the rank's block.
struct NcclCall {
  NcclOp op = NcclOp::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;

  // Elements of the input; of the output for kReduceScatter.
  size_t num_elements = 0;
  DType dtype = DType::kFloat32;
  ReductionKind kind = ReductionKind::kSum;
  int peer = 0;  // Root, or other side of kSend and kRecv.
};

// Calls that a rank makes at once, on a stream of its GPU.
struct NcclPart {
  NcclComm comm;
  GpuStream stream;
  std::vector<NcclCall> calls;
};

// The part of NCCL that we use. It is small: tests have a double of it
// (fake_nccl_runtime.h). dlopen_nccl_runtime.h wraps the real NCCL.
//
// No call waits for other processes. Abort() and Destroy() may wait for this
// process's GPUs. Communicators do not block (CommInitRanks()): IsReady() says
// when NCCL has done the last call. This may take until other ranks make the
// same call: NCCL connects to a peer at the first launch that needs it. Before
// a communicator is ready, only IsReady() and Abort() may be called on it. A
// call that ends a communicator names all ends at once that were made at once:
// a single end may wait for the others.
//
// If communicators do block (WhyBlocking()), all their ranks are ends that were
// made at once. Calls then wait for nothing outside this process, and return
// when NCCL has done them. CommInitRanks() and the first launches may take a
// second. A Launch() on streams with very many pending operations, some 1000,
// takes until the GPUs have run enough of them.
//
// Thread-safe, but only one thread at a time may call for a communicator.
// Errors name the call and NCCL's message: UNAVAILABLE if there is no library,
// INVALID_ARGUMENT for a mistake of the caller, else INTERNAL. After an error
// of a communicator only Abort() is allowed.
class NcclRuntime {
 public:
  virtual ~NcclRuntime() = default;

  // Order of launches on the GPUs of this process.
  NcclTurns& turns() { return turns_; }

  // "2.28.9"
  virtual std::string Version() = 0;

  // Reason why communicators block, and therefore have ranks of this process
  // only. Empty: they do not block. Constant.
  virtual const std::string& WhyBlocking() = 0;

  // Makes kNcclIdBytes that name a communicator. NCCL listens in this process
  // for the ranks that have the id: the process must live until the
  // communicator is made. Communicators that block need no id.
  virtual absl::StatusOr<std::string> NewUniqueId() = 0;

  // Begins to make the ends of `ranks`, in one call, of a communicator of
  // `size` ranks. The communicator is made once all ranks have called. Errors:
  // also FAILED_PRECONDITION if communicators block and some ranks are in other
  // processes.
  virtual absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int size, absl::Span<const NcclRank> ranks) = 0;

  // Makes all ends of a communicator whose calls wait until NCCL has done them,
  // as most programs use NCCL. Nothing can end a hanging call of it. For
  // comparisons only. Ready at once.
  virtual absl::StatusOr<std::vector<NcclComm>> CommInitBlocking(
      absl::Span<const NcclRank> ranks) = 0;

  // True if all calls are done, or on the streams. Errors: asynchronous ones,
  // of the library or of another rank.
  virtual absl::StatusOr<bool> IsReady(NcclComm comm) = 0;

  // Puts the calls of all parts on their streams, inside one group. Each part
  // belongs to another rank. The work on the streams ends when all ranks have
  // made the same calls, in the same order of launches. Otherwise it hangs or
  // moves the wrong bytes.
  virtual absl::Status Launch(absl::Span<const NcclPart> parts) = 0;

  // Begins to release the resources that the ends share with other ranks.
  // IsReady() says when this is done, which may need other processes of the
  // host to do the same. Only Destroy() and Abort() may follow. REQUIRES:
  // nothing is on a stream.
  virtual absl::Status Finalize(absl::Span<const NcclComm> comms) = 0;

  // Frees ends that are finalized and ready.
  virtual absl::Status Destroy(absl::Span<const NcclComm> comms) = 0;

  // Ends the work of `comms` on streams, which go on, and frees `comms`. Begins
  // to end all of them before it waits for any. For ends that have failed, or
  // may have.
  virtual absl::Status Abort(absl::Span<const NcclComm> comms) = 0;

 private:
  NcclTurns turns_;
};

// True if all are ready. Errors: the first of any end.
inline absl::StatusOr<bool> AreReady(NcclRuntime& nccl,
                                     absl::Span<const NcclComm> comms) {
  bool are_ready = true;
  // Calls IsReady() on all: a failed end may keep another from getting ready.
  for (const NcclComm comm : comms) {
    ASSIGN_OR_RETURN(const bool is_ready, nccl.IsReady(comm));
    are_ready = are_ready && is_ready;
  }
  return are_ready;
}

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_NCCL_RUNTIME_H_
