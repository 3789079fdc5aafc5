#include "gpu/nccl/runtime/dlopen_nccl_runtime.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/runtime/cuda_status.h"
#include "gpu/runtime/on_gpu.h"
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

// NCCL lacks bool and integers of 16 bits: they are only moved, never reduced,
// as a type of the same size.
template <typename Integer>
ncclDataType_t TypeOfElement(Integer) {
  constexpr bool kIsSigned = std::is_signed_v<Integer>;
  switch (sizeof(Integer)) {
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
      return call.is_average ? ncclAvg : ncclSum;
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

absl::Status CheckCanBeOn(int gpu) {
  const OnGpu on_gpu(gpu);
  return CudaStatus(on_gpu.error(), "cudaSetDevice", gpu);
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
  if (version < 10000) {
    return absl::StrCat(version / 1000, ".", version % 1000 / 100, ".",
                        version % 100);
  }
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".",
                      version % 100);
}

// Reason for NcclRuntime::WhyBlocking(). The environment overrides the
// program's setting. Errors: an old NCCL that the environment makes not block.
absl::StatusOr<std::string> WhyBlockingOf(int version) {
  constexpr char kName[] = "NCCL_COMM_BLOCKING";
  const char* const value = Setting(kName);
  // Parsed like NCCL does, which ignores numbers other than 0 and 1.
  const auto number =
      value == nullptr ? -1 : std::strtoll(value, nullptr, /*base=*/0);
  const std::string from = VersionName(DlopenNcclRuntime::kOldestNotBlocking);
  if (version >= DlopenNcclRuntime::kOldestNotBlocking) {
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

}  // namespace

absl::StatusOr<std::shared_ptr<NcclRuntime>> DlopenNcclRuntime::Open(
    const std::string& library) {
  RETURN_IF_ERROR(CheckIdsDiffer());
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return absl::UnavailableError(absl::StrCat("NCCL cannot be opened: ",
                                               why == nullptr ? library : why));
  }
  Functions functions;
  absl::Status status = Find(handle, &functions);
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
  // The constructor is private.
  return std::shared_ptr<NcclRuntime>(
      new DlopenNcclRuntime(functions, version, std::move(why_blocking)));
}

absl::Status DlopenNcclRuntime::Find(void* library, Functions* functions) {
  absl::Status status;
  const auto find = [&](const char* name, auto* function) {
    void* const found = dlsym(library, name);
    if (found == nullptr) {
      status.Update(absl::FailedPreconditionError(
          absl::StrCat("there is no function ", name)));
    }
    static_assert(sizeof(*function) == sizeof(found));
    std::memcpy(function, &found, sizeof(found));
  };
  find("ncclGetVersion", &functions->get_version);
  find("ncclGetUniqueId", &functions->get_unique_id);
  find("ncclGetErrorString", &functions->get_error_string);
  find("ncclGetLastError", &functions->get_last_error);
  find("ncclCommInitRankConfig", &functions->comm_init_rank_config);
  find("ncclCommGetAsyncError", &functions->comm_get_async_error);
  find("ncclCommFinalize", &functions->comm_finalize);
  find("ncclCommDestroy", &functions->comm_destroy);
  find("ncclCommAbort", &functions->comm_abort);
  find("ncclGroupStart", &functions->group_start);
  find("ncclGroupEnd", &functions->group_end);
  find("ncclAllReduce", &functions->all_reduce);
  find("ncclReduce", &functions->reduce);
  find("ncclBroadcast", &functions->broadcast);
  find("ncclAllGather", &functions->all_gather);
  find("ncclReduceScatter", &functions->reduce_scatter);
  find("ncclSend", &functions->send);
  find("ncclRecv", &functions->recv);
  return status;
}

// A call in progress is no error here: IsReady() reports its result.
absl::Status DlopenNcclRuntime::ToStatus(absl::string_view call,
                                         ncclResult_t result,
                                         ncclComm_t comm) const {
  if (result == ncclSuccess || result == ncclInProgress) {
    return absl::OkStatus();
  }
  const char* const more = nccl_.get_last_error(comm);
  std::string text = absl::StrCat(call, ": ", nccl_.get_error_string(result));
  if (more != nullptr && *more != '\0') absl::StrAppend(&text, " (", more, ")");
  return absl::Status(CodeOf(result), text);
}

// NCCL 2.19.3, and maybe others, keeps a lock if its first call fails.
// Concurrent and later calls would then wait for this lock.
absl::StatusOr<ncclUniqueId> DlopenNcclRuntime::MakeId() {
  ncclUniqueId id;
  MutexLock lock(&mu_);
  if (!id_failure_.ok()) return id_failure_;
  absl::Status status = ToStatus("ncclGetUniqueId", nccl_.get_unique_id(&id));
  if (is_old() && !has_made_id_) id_failure_ = status;
  has_made_id_ = has_made_id_ || status.ok();
  if (!status.ok()) return status;
  return id;
}

absl::StatusOr<std::string> DlopenNcclRuntime::NewUniqueId() {
  if (blocks()) return std::string(kNcclIdBytes, '\0');
  ASSIGN_OR_RETURN(const ncclUniqueId id, MakeId());
  return std::string(id.internal, sizeof(id.internal));
}

absl::Status DlopenNcclRuntime::InitRank(const ncclUniqueId& id, int size,
                                         const NcclRank& rank, bool is_blocking,
                                         ncclComm_t* comm) const {
  const OnGpu on_gpu(rank.gpu);
  RETURN_IF_ERROR(CudaStatus(on_gpu.error(), "cudaSetDevice", rank.gpu));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = is_blocking ? 1 : 0;
  return ToStatus(
      "ncclCommInitRankConfig",
      nccl_.comm_init_rank_config(comm, size, id, rank.rank, &config));
}

std::string DlopenNcclRuntime::Version() { return VersionName(version_); }

absl::StatusOr<std::vector<NcclComm>> DlopenNcclRuntime::CommInitRanks(
    const std::string& id, int size, absl::Span<const NcclRank> ranks) {
  if (id.size() != kNcclIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a unique id of NCCL has ", kNcclIdBytes, " bytes, not ", id.size()));
  }
  if (blocks()) {
    const auto num_here = static_cast<int>(ranks.size());
    if (num_here == size) return CommInitBlocking(ranks);
    return absl::FailedPreconditionError(absl::StrCat(
        "only ", num_here, " of the ", size,
        " ranks of a communicator are in this process, where NCCL may not wait "
        "for others: ",
        why_blocking_));
  }
  ncclUniqueId unique_id;
  std::memcpy(unique_id.internal, id.data(), id.size());
  return InitRanks(unique_id, size, ranks, /*is_blocking=*/false);
}

absl::StatusOr<std::vector<NcclComm>> DlopenNcclRuntime::CommInitBlocking(
    absl::Span<const NcclRank> ranks) {
  // NCCL would wait for a rank that cannot begin.
  for (const NcclRank& rank : ranks) {
    RETURN_IF_ERROR(CheckCanBeOn(rank.gpu));
  }
  ASSIGN_OR_RETURN(const ncclUniqueId id, MakeId());
  return InitRanks(id, static_cast<int>(ranks.size()), ranks,
                   /*is_blocking=*/true);
}

absl::StatusOr<std::vector<NcclComm>> DlopenNcclRuntime::InitRanks(
    const ncclUniqueId& id, int size, absl::Span<const NcclRank> ranks,
    bool is_blocking) {
  // NCCL may write the handles as late as the end of the group.
  std::vector<ncclComm_t> made(ranks.size(), nullptr);
  const KeptGpu kept_gpu;
  absl::Status status = ToStatus("ncclGroupStart", nccl_.group_start());
  if (!status.ok()) return status;
  for (size_t i = 0; i < ranks.size() && status.ok(); ++i) {
    status = InitRank(id, size, ranks[i], is_blocking, &made[i]);
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

absl::StatusOr<bool> DlopenNcclRuntime::IsReady(NcclComm comm) {
  ncclResult_t state = ncclSuccess;
  absl::Status status =
      ToStatus("ncclCommGetAsyncError",
               nccl_.comm_get_async_error(CommOf(comm), &state), CommOf(comm));
  if (status.ok()) {
    status = ToStatus("asynchronous error of NCCL", state, CommOf(comm));
  }
  if (!status.ok()) return status;
  return state == ncclSuccess;
}

absl::Status DlopenNcclRuntime::Call(const NcclPart& part,
                                     const NcclCall& call) const {
  const ncclComm_t comm = CommOf(part.comm);
  const auto stream = static_cast<cudaStream_t>(part.stream.handle);
  const ncclDataType_t type = TypeOf(call.dtype);
  const size_t count = call.num_elements;
  switch (call.op) {
    case NcclOp::kAllReduce:
      return ToStatus("ncclAllReduce",
                      nccl_.all_reduce(call.input, call.output, count, type,
                                       OpOf(call), comm, stream),
                      comm);
    case NcclOp::kReduce:
      return ToStatus("ncclReduce",
                      nccl_.reduce(call.input, call.output, count, type,
                                   OpOf(call), call.peer, comm, stream),
                      comm);
    case NcclOp::kBroadcast:
      return ToStatus("ncclBroadcast",
                      nccl_.broadcast(call.input, call.output, count, type,
                                      call.peer, comm, stream),
                      comm);
    case NcclOp::kAllGather:
      return ToStatus(
          "ncclAllGather",
          nccl_.all_gather(call.input, call.output, count, type, comm, stream),
          comm);
    case NcclOp::kReduceScatter:
      return ToStatus("ncclReduceScatter",
                      nccl_.reduce_scatter(call.input, call.output, count, type,
                                           OpOf(call), comm, stream),
                      comm);
    case NcclOp::kSend:
      return ToStatus(
          "ncclSend",
          nccl_.send(call.input, count, type, call.peer, comm, stream), comm);
    case NcclOp::kRecv:
      return ToStatus(
          "ncclRecv",
          nccl_.recv(call.output, count, type, call.peer, comm, stream), comm);
  }
  return absl::InternalError("no such call of NCCL");
}

absl::Status DlopenNcclRuntime::Launch(absl::Span<const NcclPart> parts) {
  if (!blocks()) return LaunchGroup(parts);
  const KeptGpu kept_gpu;
  return LaunchGroup(parts);
}

absl::Status DlopenNcclRuntime::LaunchGroup(
    absl::Span<const NcclPart> parts) const {
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

absl::Status DlopenNcclRuntime::EndEach(
    absl::string_view call, End end, absl::Span<const NcclComm> comms) const {
  absl::Status status;
  for (const NcclComm comm : comms) {
    status.Update(ToStatus(call, end(CommOf(comm))));
  }
  return status;
}

// Finalizes in a group: NCCL hangs if a thread finalizes several ranks without
// one. A finalized end can then be destroyed independently of the others.
absl::Status DlopenNcclRuntime::Finalize(absl::Span<const NcclComm> comms) {
  const KeptGpu kept_gpu;
  RETURN_IF_ERROR(ToStatus("ncclGroupStart", nccl_.group_start()));
  absl::Status status = EndEach("ncclCommFinalize", nccl_.comm_finalize, comms);
  status.Update(ToStatus("ncclGroupEnd", nccl_.group_end()));
  return status;
}

absl::Status DlopenNcclRuntime::Destroy(absl::Span<const NcclComm> comms) {
  const KeptGpu kept_gpu;
  return EndEach("ncclCommDestroy", nccl_.comm_destroy, comms);
}

absl::Status DlopenNcclRuntime::Abort(absl::Span<const NcclComm> comms) {
  if (!is_old()) return AbortAtOnce(comms);
  const KeptGpu kept_gpu;
  return EndEach("ncclCommAbort", nccl_.comm_abort, comms);
}

// Aborts on one thread per end. ncclCommAbort() waits for NCCL's work on all
// ends, which may go on until all ends are being aborted. Works of a queue with
// one worker would wait for each other.
absl::Status DlopenNcclRuntime::AbortAtOnce(
    absl::Span<const NcclComm> comms) const {
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
    // The system has no thread left. Without an abort, these ends would surely
    // hang.
  }
  for (; next < comms.size(); ++next) abort(next);
  for (std::thread& thread : threads) thread.join();
  absl::Status status;
  for (const ncclResult_t result : results) {
    status.Update(ToStatus("ncclCommAbort", result));
  }
  return status;
}

}  // namespace tutti
