#ifndef TUTTI_RESOLVERS_LEADER_GROUP_LEARNER_H_
#define TUTTI_RESOLVERS_LEADER_GROUP_LEARNER_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leader_requests.h"
#include "resolvers/leader/settled_groups.h"
#include "tutti/cluster_runtime.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Decodes and checks the params that leaders settle for this task's members,
// and adds them to the settled groups.
//
// Thread-safe. Part of LeaderClient, whose mutex guards the settled groups:
// a request must see them and the other requests at one moment. Decodes, and
// runs `learned`, without the mutex.
class GroupLearner {
 public:
  using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

  struct Options {
    ClusterSpec cluster;
    std::shared_ptr<GroupDirectory> directory;
    SelectionPolicy policy;  // Checks the leaders' decisions.

    // Same as in LeaderClient.
    std::function<void(const CollGroupParams& group, int leader)> learned;
  };

  // `mu` and `settled` outlive the object.
  GroupLearner(Options options, Mutex* mu, SettledGroups* settled)
      : options_(std::move(options)), mu_(mu), settled_(settled) {}

  // Adds the params that the leader of another task has sent for the request.
  // Errors: ABORTED if the group has ended; INVALID_ARGUMENT for a wrong
  // message.
  Answer Decode(const LeaderRequest& question, int leader,
                const proto::Settled& settled) ABSL_LOCKS_EXCLUDED(mu_);

  // Adds the params that this task, `leader`, has settled for the request.
  absl::Status Add(const LeaderRequest& question, int leader,
                   const std::shared_ptr<const CollectiveParams>& params)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::StatusOr<SettledGroups::GroupPtr> Learn(
      std::shared_ptr<const CollGroupParams> group, int leader)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<SettledGroups::GroupPtr> LearnFrom(
      const LeaderRequest& question, int leader, const proto::Group& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::shared_ptr<const CollInstanceParams>> FindOrDecode(
      const LeaderRequest& question, const SettledGroups::Group& group,
      int rank, const proto::Instance& message) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  Mutex* const mu_;
  SettledGroups* const settled_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_GROUP_LEARNER_H_
