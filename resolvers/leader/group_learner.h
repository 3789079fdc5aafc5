#ifndef TUTTI_RESOLVERS_LEADER_GROUP_LEARNER_H_
#define TUTTI_RESOLVERS_LEADER_GROUP_LEARNER_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leader_requests.h"
#include "resolvers/leader/resolver_options.h"
#include "resolvers/leader/settled_groups.h"
#include "tutti/params.h"

namespace tutti {

// Owner of a LeaderClient, which reports to it with no lock held.
class LeaderClientOwner {
 public:
  virtual ~LeaderClientOwner() = default;

  // Handles a new generation, settled by `leader`, before any call ends with
  // it. Must arrange for LeaderClient::EndGeneration() when the generation
  // ends.
  virtual void OnLearned(const CollGroupParams& group, int leader) = 0;

  // Ends a group that has just been settled for a call that must end it.
  virtual void EndEverywhere(const CollGroupParams& group,
                             const absl::Status& reason) = 0;

  // Handles the word of a request's receiver that `tasks` may not lead. Must
  // call LeaderClient::OnLeaderGone(), with `answered`, for each of them that
  // led.
  virtual void OnMayNotLead(const std::vector<int>& tasks,
                            const LeaderRequest* answered) = 0;
};

// Decodes and checks the params that leaders settle for this task's members,
// and adds them to the settled groups.
//
// Thread-safe. Part of LeaderClient, whose mutex guards the settled groups:
// a request must see them and the other requests at one moment. Decodes, and
// runs OnLearned(), without the mutex.
class GroupLearner {
 public:
  using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

  // All outlive the object.
  GroupLearner(const DistributedResolverOptions* options,
               LeaderClientOwner* owner, Mutex* mu, SettledGroups* settled)
      : options_(*options), owner_(*owner), mu_(mu), settled_(settled) {}

  // Adds the params that the leader of another task has sent for the request. A
  // request for the group alone gets params without an instance.
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

  const DistributedResolverOptions& options_;
  LeaderClientOwner& owner_;
  Mutex* const mu_;
  SettledGroups* const settled_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_GROUP_LEARNER_H_
