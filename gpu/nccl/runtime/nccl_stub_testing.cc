// Stub of NCCL's library for dlopen_nccl_runtime_test.cc. The functions only
// log their calls.

#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace {

std::mutex mu;  // Aborts come from several threads.

// Guarded by `mu`; the test reads it when no call is under way.
std::string& Log() {
  static auto* const log = new std::string();
  return *log;
}

// Thread that called ncclGetVersion() last.
std::atomic<std::thread::id> opener;

std::atomic<void (*)()> at_group_end = nullptr;

// Logs the call. Returns the result that the environment sets, e.g.
// "ncclSend=5".
ncclResult_t Called(const char* name, const std::string& arguments = "") {
  {
    const std::lock_guard<std::mutex> lock(mu);
    absl::StrAppend(&Log(), name, "(", arguments, ")\n");
  }
  const char* const fails = std::getenv("NCCL_STUB_FAILS");
  const std::string wanted = absl::StrCat(name, "=");
  if (fails == nullptr || std::strncmp(fails, wanted.c_str(), wanted.size())) {
    return ncclSuccess;
  }
  return static_cast<ncclResult_t>(std::atoi(fails + wanted.size()));
}

// Waits until as many aborts have begun as the environment says.
void AwaitAborts() {
  const char* const wanted = std::getenv("NCCL_STUB_ABORTS");
  if (wanted == nullptr) return;
  static std::atomic<int> num_begun = 0;
  ++num_begun;
  num_begun.notify_all();
  for (int begun = num_begun; begun < std::atoi(wanted); begun = num_begun) {
    num_begun.wait(begun);
  }
}

}  // namespace

extern "C" {

const char* NcclStubLog() { return Log().c_str(); }

void NcclStubAtGroupEnd(void (*function)()) { at_group_end = function; }

ncclResult_t ncclGetVersion(int* version) {
  const char* const wanted = std::getenv("NCCL_STUB_VERSION");
  *version = wanted == nullptr ? 22809 : std::atoi(wanted);
  opener = std::this_thread::get_id();
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 'x', sizeof(id->internal));
  return Called("ncclGetUniqueId");
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "some error";
}
const char* ncclGetLastError(ncclComm_t /*comm*/) { return "the last one"; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = reinterpret_cast<ncclComm_t>(&opener);  // Any non-null pointer.
  return Called("ncclCommInitRankConfig",
                absl::StrCat(nranks, ",", rank, ",", config->blocking, ",",
                             absl::string_view(id.internal, 1)));
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t /*comm*/,
                                   ncclResult_t* asyncError) {
  *asyncError = Called("ncclCommGetAsyncError");
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t /*comm*/) {
  return Called("ncclCommFinalize");
}
ncclResult_t ncclCommDestroy(ncclComm_t /*comm*/) {
  return Called("ncclCommDestroy");
}
ncclResult_t ncclCommAbort(ncclComm_t /*comm*/) {
  const bool is_here = std::this_thread::get_id() == opener.load();
  const ncclResult_t result =
      Called("ncclCommAbort", is_here ? "" : "elsewhere");
  AwaitAborts();
  return result;
}
ncclResult_t ncclGroupStart() { return Called("ncclGroupStart"); }
ncclResult_t ncclGroupEnd() {
  if (void (*const function)() = at_group_end.load()) function();
  return Called("ncclGroupEnd");
}
ncclResult_t ncclAllReduce(const void* /*input*/, void* /*output*/,
                           size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  return Called("ncclAllReduce", absl::StrCat(count, ",", type, ",", op));
}
ncclResult_t ncclReduce(const void* /*input*/, void* /*output*/, size_t count,
                        ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  return Called("ncclReduce",
                absl::StrCat(count, ",", type, ",", op, ",", root));
}
ncclResult_t ncclBroadcast(const void* /*input*/, void* /*output*/,
                           size_t count, ncclDataType_t type, int root,
                           ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  return Called("ncclBroadcast", absl::StrCat(count, ",", type, ",", root));
}
ncclResult_t ncclAllGather(const void* /*input*/, void* /*output*/,
                           size_t count, ncclDataType_t type,
                           ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  return Called("ncclAllGather", absl::StrCat(count, ",", type));
}
ncclResult_t ncclReduceScatter(const void* /*input*/, void* /*output*/,
                               size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t /*comm*/,
                               cudaStream_t /*stream*/) {
  return Called("ncclReduceScatter", absl::StrCat(count, ",", type, ",", op));
}
ncclResult_t ncclSend(const void* /*input*/, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  return Called("ncclSend", absl::StrCat(count, ",", type, ",", peer));
}
ncclResult_t ncclRecv(void* /*output*/, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t /*comm*/, cudaStream_t /*stream*/) {
  return Called("ncclRecv", absl::StrCat(count, ",", type, ",", peer));
}

}  // extern "C"
