#ifndef TUTTI_GPU_NCCL_RUNTIME_DLOPEN_NCCL_RUNTIME_H_
#define TUTTI_GPU_NCCL_RUNTIME_DLOPEN_NCCL_RUNTIME_H_

#include <nccl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

// NCCL of this machine, opened when the program runs, not linked.
//
// Communicators do not block, except with an older NCCL, or if the environment
// demands it (NCCL_COMM_BLOCKING=1). The library stays open for ever, because
// its threads may.
class DlopenNcclRuntime : public NcclRuntime {
 public:
  // Oldest accepted version. In 2.14 and 2.15, an abort may free memory that a
  // kernel of another end still reads. Older ones have no communicators with
  // settings.
  static constexpr int kOldest = 21602;

  // Oldest version whose communicators need not block. From here on, NCCL keeps
  // a group that is not ready as a separate object. The ends of a communicator
  // in such a group may be aborted at once.
  //
  // Versions 2.20.5, 2.22.3 and 2.26.2 keep the group with the thread. There it
  // mixes with the group of another communicator, and such aborts join NCCL's
  // thread twice. Communicators of older versions therefore block: a call
  // leaves nothing of a group behind when it returns. Their aborts follow each
  // other, and the last one frees everything.
  static constexpr int kOldestNotBlocking = 22703;

  static constexpr char kLibrary[] = "libnccl.so.2";

  // Errors: UNAVAILABLE with the loader's text. FAILED_PRECONDITION for a
  // library that is older than kOldest or lacks a function. FAILED_PRECONDITION
  // also for an environment that makes an older library not block
  // (NCCL_COMM_BLOCKING=0), or makes all communicators meet in one place
  // (NCCL_COMM_ID).
  static absl::StatusOr<std::shared_ptr<NcclRuntime>> Open(
      const std::string& library = kLibrary);

  std::string Version() override;
  const std::string& WhyBlocking() override { return why_blocking_; }
  absl::StatusOr<std::string> NewUniqueId() override;
  absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int size,
      absl::Span<const NcclRank> ranks) override;
  absl::StatusOr<std::vector<NcclComm>> CommInitBlocking(
      absl::Span<const NcclRank> ranks) override;
  absl::StatusOr<bool> IsReady(NcclComm comm) override;
  absl::Status Launch(absl::Span<const NcclPart> parts) override;
  absl::Status Finalize(absl::Span<const NcclComm> comms) override;
  absl::Status Destroy(absl::Span<const NcclComm> comms) override;
  absl::Status Abort(absl::Span<const NcclComm> comms) override;

 private:
  // Functions of NCCL that we call.
  struct Functions {
    decltype(&ncclGetVersion) get_version = nullptr;
    decltype(&ncclGetUniqueId) get_unique_id = nullptr;
    decltype(&ncclGetErrorString) get_error_string = nullptr;
    decltype(&ncclGetLastError) get_last_error = nullptr;
    decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
    decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
    decltype(&ncclCommFinalize) comm_finalize = nullptr;
    decltype(&ncclCommDestroy) comm_destroy = nullptr;
    decltype(&ncclCommAbort) comm_abort = nullptr;
    decltype(&ncclGroupStart) group_start = nullptr;
    decltype(&ncclGroupEnd) group_end = nullptr;
    decltype(&ncclAllReduce) all_reduce = nullptr;
    decltype(&ncclReduce) reduce = nullptr;
    decltype(&ncclBroadcast) broadcast = nullptr;
    decltype(&ncclAllGather) all_gather = nullptr;
    decltype(&ncclReduceScatter) reduce_scatter = nullptr;
    decltype(&ncclSend) send = nullptr;
    decltype(&ncclRecv) recv = nullptr;
  };

  DlopenNcclRuntime(const Functions& functions, int version,
                    std::string why_blocking)
      : nccl_(functions),
        version_(version),
        why_blocking_(std::move(why_blocking)) {}

  static absl::Status Find(void* library, Functions* functions);
  bool blocks() const { return !why_blocking_.empty(); }
  bool is_old() const { return version_ < kOldestNotBlocking; }
  absl::Status ToStatus(absl::string_view call, ncclResult_t result,
                        ncclComm_t comm = nullptr) const;
  absl::StatusOr<ncclUniqueId> MakeId() ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::vector<NcclComm>> InitRanks(
      const ncclUniqueId& id, int size, absl::Span<const NcclRank> ranks,
      bool is_blocking);
  absl::Status InitRank(const ncclUniqueId& id, int size, const NcclRank& rank,
                        bool is_blocking, ncclComm_t* comm) const;
  absl::Status Call(const NcclPart& part, const NcclCall& call) const;
  absl::Status LaunchGroup(absl::Span<const NcclPart> parts) const;
  absl::Status AbortAtOnce(absl::Span<const NcclComm> comms) const;

  // Calls `end`, which is NCCL's `call`, for each end, also after a failure.
  // Errors: the first.
  using End = ncclResult_t (*)(ncclComm_t);
  absl::Status EndEach(absl::string_view call, End end,
                       absl::Span<const NcclComm> comms) const;

  const Functions nccl_;
  const int version_;
  const std::string why_blocking_;

  Mutex mu_;
  bool has_made_id_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status id_failure_ ABSL_GUARDED_BY(mu_);  // Permanent for an old NCCL.
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_DLOPEN_NCCL_RUNTIME_H_
