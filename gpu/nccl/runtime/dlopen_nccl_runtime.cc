#include "gpu/nccl/runtime/dlopen_nccl_runtime.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "gpu/runtime/cuda_status.h"
#include "gpu/runtime/on_gpu.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

static_assert(sizeof(ncclUniqueId) == kNcclIdBytes);

ncclComm_t CommOf(NcclComm comm) {
  return static_cast<ncclComm_t>(comm.handle);
}

ncclDataType_t TypeOfElement(Float16) { return ncclFloat16; }
ncclDataType_t TypeOfElement(BFloat16) { return ncclBfloat16; }
ncclDataType_t TypeOfElement(float) { return ncclFloat32; }
ncclDataType_t TypeOfElement(double) { return ncclFloat64; }

// NCCL lacks bool, integers of 16 bits, floats of 8 bits and complex numbers:
// they are only moved, never reduced, as a type of the same size. Elements of
// 16 bytes are moved as two of 8.
template <typename Integer>
ncclDataType_t TypeOfElement(Integer) {
  constexpr bool kIsSigned = std::is_signed_v<Integer>;
  switch (sizeof(Integer)) {
    case 16:
    case 8:
      return kIsSigned ? ncclInt64 : ncclUint64;
    case 4:
      return kIsSigned ? ncclInt32 : ncclUint32;
    case 2:
      return ncclFloat16;
    default:
      return kIsSigned ? ncclInt8 : ncclUint8;
  }
}

ncclDataType_t TypeOf(DType dtype) {
  return VisitDType(dtype, [](auto element) { return TypeOfElement(element); });
}

// REQUIRES: NcclCollective has accepted the op.
ncclRedOp_t OpOf(const NcclCall& call) {
  switch (call.kind) {
    case ReductionKind::kProd:
      return ncclProd;
    case ReductionKind::kMin:
      return ncclMin;
    case ReductionKind::kMax:
      return ncclMax;
    default:
      return ncclSum;
  }
}

absl::StatusCode CodeOf(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return absl::StatusCode::kInvalidArgument;
    case ncclRemoteError:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Returns the environment's value; null if unset or empty.
const char* Setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// Rejects an environment that gives all communicators the same id: they would
// mix.
absl::Status CheckIdsDiffer() {
  constexpr char kName[] = "NCCL_COMM_ID";
  const char* const value = Setting(kName);
  if (value == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(kName, " is \"", value,
                   "\", where all communicators of NCCL would meet: unset it"));
}

// Restores the thread's GPU. NCCL does so only after success.
class KeptGpu {
 public:
  KeptGpu() : error_(cudaGetDevice(&gpu_)) {}
  ~KeptGpu() {
    if (error_ == cudaSuccess) (void)cudaSetDevice(gpu_);
  }
  KeptGpu(const KeptGpu&) = delete;
  KeptGpu& operator=(const KeptGpu&) = delete;

 private:
  int gpu_ = 0;
  const cudaError_t error_;
};

// Before 2.9, version numbers look like 2708.
std::string VersionName(int version) {
  const int unit = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / unit, ".", version % unit / 100, ".",
                      version % 100);
}

// Oldest accepted version. In 2.14 and 2.15, an abort may free memory that a
// kernel of another end still reads. Older ones have no communicators with
// settings.
constexpr int kOldest = 21602;

// Oldest version whose communicators need not block. From here on, NCCL keeps a
// group that is not ready as a separate object. The ends of a communicator in
// such a group may be aborted at once.
//
// Versions 2.20.5, 2.22.3 and 2.26.2 keep the group with the thread. There it
// mixes with the group of another communicator, and such aborts join NCCL's
// thread twice. Communicators of older versions therefore block: a call leaves
// nothing of a group behind when it returns. Their aborts follow each other,
// and the last one frees everything.
constexpr int kOldestNotBlocking = 22703;

// Reason for NcclRuntime::WhyBlocking(). The environment overrides the
// program's setting. Errors: an old NCCL that the environment makes not block.
absl::StatusOr<std::string> WhyBlockingOf(int version) {
  constexpr char kName[] = "NCCL_COMM_BLOCKING";
  const char* const value = Setting(kName);
  // Parsed like NCCL does, which ignores numbers other than 0 and 1.
  const auto number =
      value == nullptr ? -1 : std::strtoll(value, nullptr, /*base=*/0);
  const std::string from = VersionName(kOldestNotBlocking);
  if (version >= kOldestNotBlocking) {
    return number == 1 ? absl::StrCat(kName, " is \"", value, "\"") : "";
  }
  if (number != 0) {
    return absl::StrCat("NCCL ", VersionName(version), " is older than ", from);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(kName, " is \"", value, "\", but communicators of NCCL ",
                   VersionName(version), " have to block; from ", from,
                   " on they need not: unset it"));
}

// Functions of a library that we call. Null where the library has none.
struct Functions {
  // Address of a function of any type.
  struct Address {
    template <typename Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
    void* const address;
  };
  Address Find(const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr) {
      status.Update(absl::FailedPreconditionError(
          absl::StrCat("there is no function ", name)));
    }
    return {found};
  }

  void* const library;
  absl::Status status = absl::OkStatus();  // Names the first that is missing.
  decltype(&ncclGetVersion) get_version = Find("ncclGetVersion");
  decltype(&ncclGetUniqueId) get_unique_id = Find("ncclGetUniqueId");
  decltype(&ncclGetErrorString) get_error_string = Find("ncclGetErrorString");
  decltype(&ncclGetLastError) get_last_error = Find("ncclGetLastError");
  decltype(&ncclCommInitRankConfig) comm_init_rank_config =
      Find("ncclCommInitRankConfig");
  decltype(&ncclCommGetAsyncError) comm_get_async_error =
      Find("ncclCommGetAsyncError");
  decltype(&ncclCommFinalize) comm_finalize = Find("ncclCommFinalize");
  decltype(&ncclCommDestroy) comm_destroy = Find("ncclCommDestroy");
  decltype(&ncclCommAbort) comm_abort = Find("ncclCommAbort");
  decltype(&ncclGroupStart) group_start = Find("ncclGroupStart");
  decltype(&ncclGroupEnd) group_end = Find("ncclGroupEnd");
  decltype(&ncclAllReduce) all_reduce = Find("ncclAllReduce");
  decltype(&ncclReduce) reduce = Find("ncclReduce");
  decltype(&ncclBroadcast) broadcast = Find("ncclBroadcast");
  decltype(&ncclAllGather) all_gather = Find("ncclAllGather");
  decltype(&ncclReduceScatter) reduce_scatter = Find("ncclReduceScatter");
  decltype(&ncclSend) send = Find("ncclSend");
  decltype(&ncclRecv) recv = Find("ncclRecv");
};

class DlopenNcclRuntime : public NcclRuntime {
 public:
  DlopenNcclRuntime(const Functions& functions, int version,
                    std::string why_blocking)
      : nccl_(functions),
        version_(version),
        why_blocking_(std::move(why_blocking)) {}

  std::string Version() override { return VersionName(version_); }
  const std::string& WhyBlocking() override { return why_blocking_; }

  absl::StatusOr<std::string> NewUniqueId() override {
    if (blocks()) return std::string(kNcclIdBytes, '\0');
    ASSIGN_OR_RETURN(const ncclUniqueId id, MakeId());
    return std::string(id.internal, sizeof(id.internal));
  }

  absl::StatusOr<std::vector<NcclComm>> CommInitRanks(
      const std::string& id, int size,
      absl::Span<const NcclRank> ranks) override {
    if (id.size() != kNcclIdBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a unique id of NCCL has ", kNcclIdBytes, " bytes, not ", id.size()));
    }
    if (blocks()) {
      const auto num_here = static_cast<int>(ranks.size());
      if (num_here == size) return CommInitBlocking(ranks);
      return absl::FailedPreconditionError(
          absl::StrCat("only ", num_here, " of the ", size,
                       " ranks of a communicator are in this process, where "
                       "NCCL may not wait for others: ",
                       why_blocking_));
    }
    ncclUniqueId unique_id;
    std::memcpy(unique_id.internal, id.data(), id.size());
    return InitRanks(unique_id, size, ranks, /*is_blocking=*/false);
  }

  absl::StatusOr<std::vector<NcclComm>> CommInitBlocking(
      absl::Span<const NcclRank> ranks) override {
    // NCCL would wait for a rank that cannot begin.
    for (const NcclRank& rank : ranks) {
      const OnGpu on_gpu(rank.gpu);
      RETURN_IF_ERROR(CudaStatus(on_gpu.error(), "cudaSetDevice", rank.gpu));
    }
    ASSIGN_OR_RETURN(const ncclUniqueId id, MakeId());
    return InitRanks(id, static_cast<int>(ranks.size()), ranks,
                     /*is_blocking=*/true);
  }

  absl::StatusOr<bool> IsReady(NcclComm comm) override {
    ncclResult_t state = ncclSuccess;
    absl::Status status = ToStatus(
        "ncclCommGetAsyncError",
        nccl_.comm_get_async_error(CommOf(comm), &state), CommOf(comm));
    if (status.ok()) {
      status = ToStatus("asynchronous error of NCCL", state, CommOf(comm));
    }
    if (!status.ok()) return status;
    return state == ncclSuccess;
  }

  absl::Status Launch(absl::Span<const NcclPart> parts) override {
    std::optional<KeptGpu> kept_gpu;
    if (blocks()) kept_gpu.emplace();
    absl::Status status = ToStatus("ncclGroupStart", nccl_.group_start());
    if (!status.ok()) return status;
    for (const NcclPart& part : parts) {
      for (const NcclCall& call : part.calls) {
        if (status.ok()) status = Call(part, call);
      }
    }
    status.Update(ToStatus("ncclGroupEnd", nccl_.group_end()));
    return status;
  }

  // Finalizes in a group: NCCL hangs if a thread finalizes several ranks
  // without one. A finalized end can then be destroyed independently of the
  // others.
  absl::Status Finalize(absl::Span<const NcclComm> comms) override {
    const KeptGpu kept_gpu;
    RETURN_IF_ERROR(ToStatus("ncclGroupStart", nccl_.group_start()));
    absl::Status status =
        EndEach("ncclCommFinalize", nccl_.comm_finalize, comms);
    status.Update(ToStatus("ncclGroupEnd", nccl_.group_end()));
    return status;
  }

  absl::Status Destroy(absl::Span<const NcclComm> comms) override {
    const KeptGpu kept_gpu;
    return EndEach("ncclCommDestroy", nccl_.comm_destroy, comms);
  }

  absl::Status Abort(absl::Span<const NcclComm> comms) override {
    if (!is_old()) return AbortAtOnce(comms);
    const KeptGpu kept_gpu;
    return EndEach("ncclCommAbort", nccl_.comm_abort, comms);
  }

 private:
  bool blocks() const { return !why_blocking_.empty(); }
  bool is_old() const { return version_ < kOldestNotBlocking; }

  // A call in progress is no error here: IsReady() reports its result.
  absl::Status ToStatus(absl::string_view call, ncclResult_t result,
                        ncclComm_t comm = nullptr) const {
    if (result == ncclSuccess || result == ncclInProgress) {
      return absl::OkStatus();
    }
    const char* const more = nccl_.get_last_error(comm);
    std::string text = absl::StrCat(call, ": ", nccl_.get_error_string(result));
    if (more != nullptr && *more != '\0') {
      absl::StrAppend(&text, " (", more, ")");
    }
    return absl::Status(CodeOf(result), text);
  }

  // NCCL 2.19.3, and maybe others, keeps a lock if its first call fails.
  // Concurrent and later calls would then wait for this lock.
  absl::StatusOr<ncclUniqueId> MakeId() ABSL_LOCKS_EXCLUDED(mu_) {
    ncclUniqueId id;
    MutexLock lock(&mu_);
    if (!id_failure_.ok()) return id_failure_;
    absl::Status status = ToStatus("ncclGetUniqueId", nccl_.get_unique_id(&id));
    if (is_old() && !has_made_id_) id_failure_ = status;
    has_made_id_ = has_made_id_ || status.ok();
    if (!status.ok()) return status;
    return id;
  }

  absl::StatusOr<std::vector<NcclComm>> InitRanks(
      const ncclUniqueId& id, int size, absl::Span<const NcclRank> ranks,
      bool is_blocking) {
    // NCCL may write the handles as late as the end of the group.
    std::vector<ncclComm_t> made(ranks.size(), nullptr);
    const KeptGpu kept_gpu;
    absl::Status status = ToStatus("ncclGroupStart", nccl_.group_start());
    if (!status.ok()) return status;
    for (size_t i = 0; i < ranks.size() && status.ok(); ++i) {
      const OnGpu on_gpu(ranks[i].gpu);
      status = CudaStatus(on_gpu.error(), "cudaSetDevice", ranks[i].gpu);
      if (!status.ok()) break;
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = is_blocking ? 1 : 0;
      status = ToStatus("ncclCommInitRankConfig",
                        nccl_.comm_init_rank_config(&made[i], size, id,
                                                    ranks[i].rank, &config));
    }
    const ncclResult_t ended = nccl_.group_end();
    status.Update(ToStatus("ncclGroupEnd", ended));
    if (blocks() && ended == ncclInProgress) {
      status.Update(absl::FailedPreconditionError(
          "communicators of NCCL were to block, but its settings have them not "
          "block: NCCL_COMM_BLOCKING=0 may stand in its file of settings"));
    }
    std::vector<NcclComm> comms;
    for (const ncclComm_t comm : made) {
      if (comm != nullptr) comms.push_back({comm});
    }
    if (status.ok() && comms.size() < made.size()) {
      status = absl::InternalError(
          absl::StrCat("NCCL made ", comms.size(), " communicators for the ",
                       made.size(), " ranks of this process"));
    }
    if (status.ok()) return comms;
    Abort(comms).IgnoreError();
    return status;
  }

  absl::Status Call(const NcclPart& part, const NcclCall& call) const {
    const auto& [op, input, output, num_elements, dtype, kind, peer] = call;
    const size_t count = num_elements * (SizeOf(dtype) == 16 ? 2 : 1);
    const ncclComm_t comm = CommOf(part.comm);
    const auto stream = static_cast<cudaStream_t>(part.stream.handle);
    const ncclDataType_t type = TypeOf(dtype);
    const ncclRedOp_t sum = OpOf(call);
    const auto status = [&](absl::string_view name, ncclResult_t result) {
      return ToStatus(name, result, comm);
    };
    switch (op) {
      case NcclOp::kAllReduce:
        return status(
            "ncclAllReduce",
            nccl_.all_reduce(input, output, count, type, sum, comm, stream));
      case NcclOp::kReduce:
        return status("ncclReduce", nccl_.reduce(input, output, count, type,
                                                 sum, peer, comm, stream));
      case NcclOp::kBroadcast:
        return status(
            "ncclBroadcast",
            nccl_.broadcast(input, output, count, type, peer, comm, stream));
      case NcclOp::kAllGather:
        return status("ncclAllGather", nccl_.all_gather(input, output, count,
                                                        type, comm, stream));
      case NcclOp::kReduceScatter:
        return status("ncclReduceScatter",
                      nccl_.reduce_scatter(input, output, count, type, sum,
                                           comm, stream));
      case NcclOp::kSend:
        return status("ncclSend",
                      nccl_.send(input, count, type, peer, comm, stream));
      case NcclOp::kRecv:
        return status("ncclRecv",
                      nccl_.recv(output, count, type, peer, comm, stream));
    }
    return absl::InternalError("no such call of NCCL");
  }

  // Calls `end`, which is NCCL's `call`, for each end, also after a failure.
  // Errors: the first.
  using End = ncclResult_t (*)(ncclComm_t);
  absl::Status EndEach(absl::string_view call, End end,
                       absl::Span<const NcclComm> comms) const {
    absl::Status status;
    for (const NcclComm comm : comms) {
      status.Update(ToStatus(call, end(CommOf(comm))));
    }
    return status;
  }

  // Aborts on one thread per end. ncclCommAbort() waits for NCCL's work on all
  // ends, which may go on until all ends are being aborted. Works of a queue
  // with one worker would wait for each other.
  absl::Status AbortAtOnce(absl::Span<const NcclComm> comms) const {
    std::vector<ncclResult_t> results(comms.size(), ncclSuccess);
    const auto abort = [&](size_t i) {
      results[i] = nccl_.comm_abort(CommOf(comms[i]));
    };
    std::vector<std::thread> threads;
    threads.reserve(comms.size());
    size_t next = 0;
    try {
      for (; next + 1 < comms.size(); ++next) threads.emplace_back(abort, next);
    } catch (const std::system_error&) {
      // The system has no thread left. Without an abort, these ends would
      // surely hang.
    }
    for (; next < comms.size(); ++next) abort(next);
    for (std::thread& thread : threads) thread.join();
    absl::Status status;
    for (const ncclResult_t result : results) {
      status.Update(ToStatus("ncclCommAbort", result));
    }
    return status;
  }

  const Functions nccl_;
  const int version_;
  const std::string why_blocking_;

  Mutex mu_;
  bool has_made_id_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status id_failure_ ABSL_GUARDED_BY(mu_);  // Permanent for an old NCCL.
};

}  // namespace

absl::StatusOr<std::shared_ptr<NcclRuntime>> OpenNccl(
    const std::string& library) {
  RETURN_IF_ERROR(CheckIdsDiffer());
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return absl::UnavailableError(absl::StrCat("NCCL cannot be opened: ",
                                               why == nullptr ? library : why));
  }
  const Functions functions = {.library = handle};
  absl::Status status = functions.status;
  int version = 0;
  if (functions.get_version != nullptr) functions.get_version(&version);
  if (functions.get_version != nullptr && version < kOldest) {
    status = absl::FailedPreconditionError(
        absl::StrCat("it is NCCL ", VersionName(version), "; ",
                     VersionName(kOldest), " is the oldest that will do"));
  }
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(library, ": ", status.message()));
  }
  ASSIGN_OR_RETURN(std::string why_blocking, WhyBlockingOf(version));
  return std::make_shared<DlopenNcclRuntime>(functions, version,
                                             std::move(why_blocking));
}

bool HasNccl() { return true; }

absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere() {
  return OpenNccl("libnccl.so.2");
}

}  // namespace tutti
