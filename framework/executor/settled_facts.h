#ifndef TUTTI_FRAMEWORK_EXECUTOR_SETTLED_FACTS_H_
#define TUTTI_FRAMEWORK_EXECUTOR_SETTLED_FACTS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// Facts settled about an instance for one of its members. Constant once the
// execution table has them.
struct SettledFacts : std::enable_shared_from_this<SettledFacts> {
  explicit SettledFacts(std::shared_ptr<const CollectiveParams> params)
      : params(std::move(params)),
        generation(this->params->group->generation),
        group_end(this->params->group->cancellation.get()),
        spans_tasks(this->params->task->num_local <
                    this->params->group->size()) {}

  const std::shared_ptr<const CollectiveParams> params;

  // Copied from the group: calls read these fields often, and the objects on
  // the way to the group may have left the caches.
  const uint64_t generation;
  const Cancellation* const group_end;
  const bool spans_tasks;

  std::shared_ptr<const CollectiveRequest> request;
  std::shared_ptr<CollectiveImplementationInterface> implementation;
  bool shares_output = false;   // The implementation can share its output.
  bool takes_segments = false;  // The implementation can take segments.
  bool has_dependencies = false;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_SETTLED_FACTS_H_
