#ifndef TUTTI_RESOLVERS_LEADER_END_REPORTER_H_
#define TUTTI_RESOLVERS_LEADER_END_REPORTER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/resolver_options.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Reports ends on this task to other tasks. Each message has the time limit
// `kLimit`. A task that takes no message for so long is lost, or soon lost. If
// it comes back, it ends by itself the things that others have ended.
//
// Thread-safe. Never blocks.
class EndReporter : public std::enable_shared_from_this<EndReporter> {
 public:
  static constexpr absl::Duration kLimit = DefaultTime("end");

  explicit EndReporter(DistributedResolverOptions options)
      : options_(std::move(options)) {}

  // Reports the end of a group's generation to the tasks of its members and to
  // the leader.
  void ReportGroupEnd(const CollGroupParams& group, const absl::Status& reason);

  // Reports the end to one task; `reported` gets the result. Generation 0: the
  // generation that this task waits for there, until `cancellation`.
  void ReportGroupEnd(
      int task, GroupKey key, uint64_t generation, const absl::Status& reason,
      ControlDone reported = [](const ControlAnswer&) {},
      std::shared_ptr<Cancellation> cancellation = nullptr);

  // Reports a given-up execution to the leader, which reports it to all tasks.
  void ReportGivenUp(const GivenUp& given_up) {
    ReportGivenUp(given_up, options_.environment.clock->Now() + kLimit);
  }

 private:
  void ReportGivenUp(const GivenUp& given_up, absl::Time limit);
  void ReportAllGivenUp(const GivenUp& given_up);
  void OnGivenUpReported(const GivenUp& given_up, absl::Time limit, int leader,
                         const ControlAnswer& answer);

  const DistributedResolverOptions options_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_END_REPORTER_H_
