#include "remote/mpi/messages/mpi_world.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_requests.h"

// Header of Open MPI, which may be configured without it.
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace tutti {
namespace {

// Version of the messages between processes.
constexpr int kProtocolVersion = 11;

const char* LevelName(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

}  // namespace

absl::Status MpiWorld::BringUp(const MpiRuntime::Options& options) {
  RETURN_IF_ERROR(Join());
  RETURN_IF_ERROR(CopyCommunicator());
  is_cuda_aware = options.is_cuda_aware.value_or(MpiSaysItIsCudaAware());
  LearnLimits();
  absl::Status status = LearnHosts(options.shares_memory);
  if (absl::IsFailedPrecondition(status)) {  // Same error on all processes.
    MPI_Comm_free(&messages);
    MPI_Comm_free(&payloads);
  } else if (!status.ok()) {
    MakeErrorsFatal();
  }
  return status;
}

absl::Status MpiWorld::Join() {
  int is_over = 0, is_up = 0;
  MPI_Finalized(&is_over);
  MPI_Initialized(&is_up);
  if (is_over != 0) {
    return absl::FailedPreconditionError(
        "MPI has ended in this process, and cannot be started again");
  }
  if (is_up == 0) {
    absl::Status status = MpiStatus(
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level),
        "MPI_Init_thread");
    if (status.ok()) is_ours = true;
    return status;
  }
  MPI_Query_thread(&thread_level);
  if (thread_level >= MPI_THREAD_MULTIPLE) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the host program has initialized MPI with ", LevelName(thread_level),
      "; its threads and Tutti's need MPI_THREAD_MULTIPLE"));
}

absl::Status MpiWorld::CopyCommunicator() {
  absl::Status status =
      MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &messages), "MPI_Comm_dup");
  status.Update(
      MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &payloads), "MPI_Comm_dup"));
  if (!status.ok()) return status;
  MPI_Comm_set_errhandler(messages, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(payloads, MPI_ERRORS_RETURN);
  MPI_Comm_size(messages, &size);
  MPI_Comm_rank(messages, &rank);
  return absl::OkStatus();
}

void MpiWorld::LearnLimits() {
  int* tag = nullptr;
  int has_max_tag = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &has_max_tag);
  max_tag = has_max_tag != 0 ? *tag : 32767;  // MPI promises this.
  char name[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(name, &length);
  library = std::string(absl::StripAsciiWhitespace(
      absl::string_view(name, static_cast<size_t>(length))));
}

// Compares the protocol versions too.
absl::Status MpiWorld::LearnHosts(bool shares_memory) {
  // Has the same size in all versions: it is sent before versions are compared.
  struct Introduction {
    int version = kProtocolVersion;
    int16_t shares_memory = 1;
    int16_t is_ours = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = {};
  };
  Introduction own;
  own.shares_memory = shares_memory ? 1 : 0;
  own.is_ours = is_ours ? 1 : 0;
  int length = 0;
  MPI_Get_processor_name(own.host, &length);
  std::vector<Introduction> all(size);
  RETURN_IF_ERROR(
      MpiStatus(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(),
                              sizeof(own), MPI_BYTE, messages),
                "MPI_Allgather"));
  all_are_ours = true;
  for (int peer = 0; peer < size; ++peer) {
    Introduction& introduction = all[peer];
    if (introduction.version != kProtocolVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", peer, " speaks version ", introduction.version,
                       " of the protocol, this one, rank ", rank, ", version ",
                       kProtocolVersion));
    }
    if (introduction.shares_memory != own.shares_memory) {
      return absl::FailedPreconditionError(absl::StrCat(
          "MpiRuntime::Options::shares_memory of rank ", peer, " is ",
          introduction.shares_memory, ", that of this one, rank ", rank, ", ",
          own.shares_memory, "; it must be the same on all"));
    }
    introduction.host[MPI_MAX_PROCESSOR_NAME - 1] = '\0';
    hosts.emplace_back(introduction.host);
    all_are_ours = all_are_ours && introduction.is_ours != 0;
  }
  return absl::OkStatus();
}

void MpiWorld::MakeErrorsFatal() const {
  MPI_Comm_set_errhandler(messages, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(payloads, MPI_ERRORS_ARE_FATAL);
}

void MpiWorld::TakeDown() {
  MPI_Comm_free(&messages);
  MPI_Comm_free(&payloads);
  if (is_ours) MPI_Finalize();
}

std::string MpiWorld::Describe() const {
  return absl::StrCat(library, ", ", LevelName(thread_level),
                      is_cuda_aware ? ", CUDA-aware" : ", not CUDA-aware");
}

#ifdef MPIX_CUDA_AWARE_SUPPORT
bool MpiSaysItIsCudaAware() { return MPIX_Query_cuda_support() == 1; }
bool MpiHeaderSaysItIsCudaAware() { return MPIX_CUDA_AWARE_SUPPORT == 1; }
#else
bool MpiSaysItIsCudaAware() { return false; }
bool MpiHeaderSaysItIsCudaAware() { return false; }
#endif

}  // namespace tutti
