#ifndef TUTTI_GPU_NCCL_RUNTIME_NCCL_KEYS_H_
#define TUTTI_GPU_NCCL_RUNTIME_NCCL_KEYS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/params.h"

namespace tutti {

// NCCL runtimes of this process's devices, by the devices' incarnations.
//
// Global to the process, because a group's leader must make a communicator key
// before it has a device or an executor. A device with NCCL is listed as long
// as it lives. Thread-safe.
class NcclKeys {
 public:
  // The object that CreateCudaDevices() fills.
  static NcclKeys& Global();

  NcclKeys() = default;
  NcclKeys(const NcclKeys&) = delete;
  NcclKeys& operator=(const NcclKeys&) = delete;

  // Adds a runtime until the result is destroyed. This object outlives the
  // result. Ignores a null runtime.
  std::shared_ptr<void> Add(uint64_t incarnation,
                            std::shared_ptr<NcclRuntime> nccl)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Makes a unique id with the runtime of the group's first member in this
  // process, or else of any device here. Errors: UNAVAILABLE if no device here
  // has NCCL; FAILED_PRECONDITION for a group of several tasks if communicators
  // of this runtime or of a member block; as NcclRuntime::NewUniqueId.
  absl::StatusOr<std::string> NewKey(const CollGroupParams& group)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::shared_ptr<NcclRuntime> Find(const CollGroupParams& group)
      ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::multimap<uint64_t, std::shared_ptr<NcclRuntime>> runtimes_
      ABSL_GUARDED_BY(mu_);
};

// Adds the leader's entry to `runtime_details`, once for all implementations: a
// key of kNcclIdBytes, or the reason why there is none.
void AddNcclKey(NcclKeys& keys, CollGroupParams* group);

// Returns the key. Errors: FAILED_PRECONDITION if the leader made no valid key.
absl::StatusOr<std::string> NcclKeyOf(const CollGroupParams& group);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_NCCL_KEYS_H_
