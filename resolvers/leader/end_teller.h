#ifndef TUTTI_RESOLVERS_LEADER_END_TELLER_H_
#define TUTTI_RESOLVERS_LEADER_END_TELLER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/leadership.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Tells other tasks what has ended on this one. Each message is given `kLimit`:
// a task that takes none for so long is lost by then, or about to be, and ends
// by itself what others have ended if it comes back.
//
// Thread-safe. Waits for nobody.
class EndTeller : public std::enable_shared_from_this<EndTeller> {
 public:
  static constexpr absl::Duration kLimit = absl::Seconds(10);

  struct Options {
    ClusterSpec cluster;
    std::shared_ptr<ControlChannel> channel;
    Clock* clock = nullptr;  // Outlives the object.
    std::shared_ptr<const Leadership> leadership;
  };

  explicit EndTeller(Options options) : options_(std::move(options)) {}

  // A generation of a group has ended: to the tasks of its members, and to the
  // one that leads.
  void TellGroupEnd(const CollGroupParams& group, const absl::Status& reason);

  // The same to one task; generation 0: the one that this task waits for there.
  // `told` gets how that went.
  void TellGroupEnd(
      int task, GroupKey key, uint64_t generation, const absl::Status& reason,
      absl::AnyInvocable<void(const absl::Status&) &&> told =
          [](const absl::Status&) {});

  // An execution was given up: to the task that leads, and as that to all.
  void TellGivenUp(const GivenUp& given_up) {
    TellGivenUp(given_up, options_.clock->Now() + kLimit);
  }

 private:
  void TellGivenUp(const GivenUp& given_up, absl::Time limit);
  void TellAllGivenUp(const GivenUp& given_up);
  void Send(int task, proto::ControlRequest request, absl::Time deadline,
            absl::AnyInvocable<void(const absl::Status&) &&> told);

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_END_TELLER_H_
