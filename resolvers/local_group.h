#ifndef TUTTI_RESOLVERS_LOCAL_GROUP_H_
#define TUTTI_RESOLVERS_LOCAL_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/collective_executor.h"
#include "framework/collective_executor_mgr.h"
#include "framework/collective_request.h"
#include "framework/device_manager.h"
#include "framework/environment.h"
#include "framework/selection_rules.h"
#include "framework/tensor.h"

namespace tutti {

// CPU devices of this process, and a thread that may block: runs a collective
// on all of them and waits. For tools, tests and programs that have no step of
// their own to go on with.
//
// Thread-safe. `environment`'s parts outlive the group.
class LocalGroup {
 public:
  // `rules` may be null. Errors: as DeviceManager::CreateCpu and
  // CreateLocalExecutorMgr.
  static absl::StatusOr<std::unique_ptr<LocalGroup>> Create(
      const Environment& environment, int num_tasks, int devices_per_task,
      std::shared_ptr<const SelectionRules> rules = nullptr);
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  const std::vector<Device*>& devices() const { return devices_->devices(); }
  CollectiveExecutorMgr& manager() { return *manager_; }

  // Runs the calls in order of the span, in step `step_id`, and waits for all.
  // A call without a device gets the device of its place in the span. The
  // statuses are in the same order.
  std::vector<absl::Status> RunEach(int64_t step_id,
                                    absl::Span<CollectiveArgs> calls);

  // The same; OK if all are, else the first that is not.
  absl::Status Run(int64_t step_id, absl::Span<CollectiveArgs> calls);

  // One collective on all devices, in step `step_id`: inputs[i] is what rank i
  // brings, unset where it has none, and the result what each rank gets, in
  // memory of its own. A member's dtype and shape are those of its input, else
  // those of `request`; the source of a broadcast is who has an input. An
  // instance key serves one kind of request. All ask for their ranks: other
  // calls of the same group key have to ask for the same. Errors: also
  // INVALID_ARGUMENT unless there is one input for each device.
  absl::StatusOr<std::vector<Tensor>> Run(int64_t step_id,
                                          CollectiveRequest request,
                                          absl::Span<const Tensor> inputs);

 private:
  LocalGroup(std::unique_ptr<DeviceManager> devices,
             std::unique_ptr<CollectiveExecutorMgr> manager);

  const std::unique_ptr<DeviceManager> devices_;
  const std::unique_ptr<CollectiveExecutorMgr> manager_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_GROUP_H_
