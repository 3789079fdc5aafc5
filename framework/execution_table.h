#ifndef TUTTI_FRAMEWORK_EXECUTION_TABLE_H_
#define TUTTI_FRAMEWORK_EXECUTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/buf_key.h"
#include "framework/collective_implementation.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/execution.h"
#include "framework/mutex.h"
#include "framework/number_set.h"
#include "framework/params.h"

namespace tutti {

// Which instances a step has run, on which devices of this process, and which
// executions are under way. The n-th call of each member of an instance makes
// the n-th execution. Remembers what an instance's later executions need, so
// that they cost one look-up.
//
// An execution stays until all members of this process took part in it and
// left: so a member that comes late learns that it failed. An instance is
// forgotten when it is idle, all its members came equally often, and a quarter
// of `max_instances` others were used since. Thread-safe; calls nobody.
class ExecutionTable {
 public:
  // What was settled about an instance for one of its members.
  struct Settled {
    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<const CollectiveParams> params;
    std::shared_ptr<CollectiveImplementationInterface> implementation;
  };

  ExecutionTable(int64_t step_id, size_t num_local_devices,
                 size_t max_instances)
      : step_id_(step_id),
        num_local_devices_(num_local_devices),
        max_instances_(max_instances) {}
  ExecutionTable(const ExecutionTable&) = delete;
  ExecutionTable& operator=(const ExecutionTable&) = delete;

  // The member's next execution, or the one numbered `number`. `settled` gets
  // what Settle() left, if anything. Errors: ALREADY_EXISTS if the device is
  // in that execution.
  absl::StatusOr<std::shared_ptr<Execution>> Join(
      const Device* device, const CollectiveRequest& request,
      std::optional<uint64_t> number, Settled* settled)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Remembers `settled` for the member's later executions, and gives this one
  // its key.
  void Settle(const Device* device, Execution& execution, Settled settled)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The device's part in `execution` has ended. The key if it was the last one
  // here and the execution is forgotten.
  std::optional<ExecKey> Leave(Execution& execution) ABSL_LOCKS_EXCLUDED(mu_);

  // The key under which the execution's transfers run, once a member is
  // settled.
  std::optional<ExecKey> KeyOf(const Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether all members of this process have launched that execution. False for
  // an instance that was forgotten.
  bool HasLaunched(InstanceId id, uint64_t number) ABSL_LOCKS_EXCLUDED(mu_);

  // Devices of this process that have come.
  std::vector<const Device*> Joined(const Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Those under way: of one group or of all.
  std::vector<std::shared_ptr<Execution>> Running(
      std::optional<GroupKey> group_key) ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_instances() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct MemberKey {
    const Device* device;
    InstanceId id;
    friend bool operator==(const MemberKey&, const MemberKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const MemberKey& key) {
      return H::combine(std::move(h), key.device, key.id);
    }
  };
  struct Instance {
    size_t num_expected = 0;  // Members of this process.
    uint64_t last_used = 0;   // In joins.
    std::vector<const Device*> members;
    absl::flat_hash_map<uint64_t, std::shared_ptr<Execution>> executions;
    NumberSet ended;  // Executions that are not in `executions` any more.
  };
  struct Member {
    Instance* instance = nullptr;
    uint64_t next_execution = 0;
    Settled settled;
  };

  Member& FindOrAddMember(const Device* device,
                          const CollectiveRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetKey(Execution& execution, const Settled& settled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t NumCalls(const Device* device, InstanceId id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsIdle(InstanceId id, const Instance& instance)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetOldInstances() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(InstanceId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t step_id_;
  const size_t num_local_devices_;
  const size_t max_instances_;
  Mutex mu_;
  uint64_t num_joins_ ABSL_GUARDED_BY(mu_) = 0;
  size_t next_sweep_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<MemberKey, Member> members_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<InstanceId, std::unique_ptr<Instance>> instances_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTION_TABLE_H_
