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

// The NCCL runtimes of this process's devices, by the devices' incarnations.
//
// A group's leader is asked for a communicator key before there is a device or
// an executor to ask, so this is the one place that belongs to the process.
// Devices that have NCCL stand here as long as they live. Thread-safe.
class NcclKeys {
 public:
  // The one that CreateCudaDevices() fills.
  static NcclKeys& Global();

  NcclKeys() = default;
  NcclKeys(const NcclKeys&) = delete;
  NcclKeys& operator=(const NcclKeys&) = delete;

  // Until the result goes; this object outlives it. What has no runtime is not
  // added.
  std::shared_ptr<void> Add(uint64_t incarnation,
                            std::shared_ptr<NcclRuntime> nccl)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A unique id of the runtime of the first member that is of this process; if
  // none is, of any device of it. Errors: UNAVAILABLE if no device here has
  // NCCL; FAILED_PRECONDITION for a group of several tasks where
  // communicators block, its own or a member's; as NcclRuntime::NewUniqueId.
  absl::StatusOr<std::string> NewKey(const CollGroupParams& group)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::shared_ptr<NcclRuntime> Find(const CollGroupParams& group)
      ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::multimap<uint64_t, std::shared_ptr<NcclRuntime>> runtimes_
      ABSL_GUARDED_BY(mu_);
};

// What a leader puts into `runtime_details`, once for all implementations: a
// key of kNcclIdBytes, or why there is none.
void AddNcclKey(NcclKeys& keys, CollGroupParams* group);

// The key. Errors: FAILED_PRECONDITION if what the leader has made is none.
absl::StatusOr<std::string> NcclKeyOf(const CollGroupParams& group);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_NCCL_KEYS_H_
