#ifndef TUTTI_GPU_NCCL_RUNTIME_NCCL_RUNTIME_H_
#define TUTTI_GPU_NCCL_RUNTIME_NCCL_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gpu/nccl/runtime/nccl_turns.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// What devices say that have it (DeviceAttributes::libraries).
inline constexpr char kNcclLibrary[] = "NCCL";

// What they say besides where its communicators need not block.
inline constexpr char kNcclAmongTasks[] = "NCCL among tasks";

// The bytes of a unique id (NCCL_UNIQUE_ID_BYTES).
inline constexpr size_t kNcclIdBytes = 128;

// One rank's end of a communicator. Only its runtime looks into it.
struct NcclComm {
  void* handle = nullptr;
};

// A rank of a communicator that is of this process.
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

// What one rank calls. Input and output as NCCL has them: in place where they
// are the same memory, or for gathers and scatters this rank's block.
struct NcclCall {
  NcclOp op = NcclOp::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;

  // Of the input; of the output for kReduceScatter.
  size_t num_elements = 0;
  DType dtype = DType::kFloat32;
  ReductionKind kind = ReductionKind::kSum;
  bool is_average = false;  // Of a kSum: NCCL divides it by the ranks.
  int peer = 0;             // The root, or the other side of kSend and kRecv.
};

// What one rank calls at once, on a stream of its GPU.
struct NcclPart {
  NcclComm comm;
  GpuStream stream;
  std::vector<NcclCall> calls;
};

// What we use of NCCL: so little that tests have a double of it
// (fake_nccl_runtime.h). NCCL's is dlopen_nccl_runtime.h.
//
// No call waits for other processes, but for Abort() and Destroy(), which may
// wait for this process's GPUs: communicators do not block (CommInitRanks()),
// and IsReady() says when NCCL is past what it was told last. That may take
// until other ranks are told the same: where a launch is the first that needs a
// peer, NCCL connects to it then. Until it is ready nothing but IsReady() and
// Abort() may be called on the communicator. What ends it is called at once for
// all ends that were made at once: one of them alone may wait for the others.
//
// Where communicators do block (WhyBlocking()), all their ranks are ends that
// were made at once, so that nothing outside this process is waited for: calls
// return when NCCL is past them. That may be a second for CommInitRanks() and
// the first launches; and as long as the GPUs take to get on, for a Launch() on
// streams that have very much before them, some 1000 operations.
//
// Thread-safe, but only one thread at a time may call for a communicator.
// Errors name the call and what NCCL says: UNAVAILABLE if there is no library,
// INVALID_ARGUMENT for what the caller got wrong, else INTERNAL. After an error
// of a communicator only Abort() is left.
class NcclRuntime {
 public:
  virtual ~NcclRuntime() = default;

  // Whose launch on a GPU of this process comes next.
  NcclTurns& turns() { return turns_; }

  // "2.28.9"
  virtual std::string Version() = 0;

  // Why communicators block, and so have ranks of this process alone. Empty:
  // they do not. Always the same.
  virtual const std::string& WhyBlocking() = 0;

  // kNcclIdBytes that name a communicator. NCCL listens in this process for who
  // has them, so it lives until the communicator is made; not where
  // communicators block, which need no name.
  virtual absl::StatusOr<std::string> NewUniqueId() = 0;

  // Begins to make the ends of `ranks`, in one call, of a communicator of
  // `size` ranks, which is there once all have done so. Errors: also
  // FAILED_PRECONDITION if communicators block and some ranks are not here.
  virtual absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int size, absl::Span<const NcclRank> ranks) = 0;

  // Makes all ends of a communicator whose calls wait until NCCL is past them,
  // as programs mostly have it, and so nothing can end one that hangs: for
  // comparisons. Ready at once.
  virtual absl::StatusOr<std::vector<NcclComm>> CommInitBlocking(
      absl::Span<const NcclRank> ranks) = 0;

  // Whether all that was called is done, or on the streams. An error that came
  // up since, in the library or on another rank, is returned.
  virtual absl::StatusOr<bool> IsReady(NcclComm comm) = 0;

  // Puts the calls of all parts on their streams, inside one group: each part
  // is of another rank. What it puts there ends when all ranks have called the
  // same, in the same order of launches; where they do not, it hangs or moves
  // the wrong bytes.
  virtual absl::Status Launch(absl::Span<const NcclPart> parts) = 0;

  // Begins to let go of what the ends share with other ranks. IsReady() says
  // when that is done: it may take until other processes of the host do so too.
  // Only Destroy() and Abort() may follow. REQUIRES: nothing is on a stream.
  virtual absl::Status Finalize(absl::Span<const NcclComm> comms) = 0;

  // Frees what is finalized and ready.
  virtual absl::Status Destroy(absl::Span<const NcclComm> comms) = 0;

  // Ends what they have on streams, which go on, and frees them. Waits for none
  // of the ends before it has begun to end all. For what has failed, or may.
  virtual absl::Status Abort(absl::Span<const NcclComm> comms) = 0;

 private:
  NcclTurns turns_;
};

// Whether all are, or the first error of one.
absl::StatusOr<bool> AreReady(NcclRuntime& nccl,
                              absl::Span<const NcclComm> comms);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_NCCL_RUNTIME_H_
