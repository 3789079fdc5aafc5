#ifndef TUTTI_RESOLVERS_LEADER_RESOLVER_OPTIONS_H_
#define TUTTI_RESOLVERS_LEADER_RESOLVER_OPTIONS_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leadership.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"
#include "tutti/selection.h"

namespace tutti {

// Options of ParamResolverDistributed. Its parts share them.
struct DistributedResolverOptions {
  ClusterSpec cluster;
  Environment environment;

  std::shared_ptr<ControlChannel> channel;

  // Gets all groups of this task.
  std::shared_ptr<GroupDirectory> directory;
  std::shared_ptr<Leadership> leadership;

  // Same as in ParamResolverLocal. The rules and costs of the leading task
  // decide.
  SelectionPolicy policy;

  // Largest number of entries of the settled instances of this task's
  // members. An instance has one entry for each member and one for each
  // number in CollInstanceParams::rows. The instances that this task leads
  // have the same limit once more.
  size_t max_entries = size_t{1} << 19;

  // Time during which a request is repeated to a task that does not know yet
  // that it leads.
  absl::Duration takeover_limit = DefaultTime("takeover");

  // Ends an execution of a generation that members of this task know. May be
  // null.
  std::function<void(const ExecKey& execution, const absl::Status& reason)>
      cancel_execution;

  // Returns why a process is known to be lost; OK if it is not. May be null.
  std::function<absl::Status(const ControlCaller& process)> loss_of;

  // Checks whether the task is gone. May be null.
  std::function<void(int task)> suspect;

  // Reports that WaitsFor() or WaitsForAny() may have changed. May be null.
  std::function<void()> waits_changed;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_RESOLVER_OPTIONS_H_
