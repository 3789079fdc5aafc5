#include "resolvers/leader/end_reporter.h"

#include <set>
#include <vector>

#include "framework/base/callbacks.h"
#include "framework/control/wire_codec.h"
#include "resolvers/local/group_builder.h"

namespace tutti {
namespace {

proto::ControlRequest Encode(const GivenUp& given_up) {
  proto::ControlRequest request;
  proto::CancelExecution* const message = request.mutable_cancel_execution();
  *message->mutable_key() = EncodeKey(given_up.execution);
  *message->mutable_reason() = EncodeError(given_up.reason);
  return request;
}

}  // namespace

void EndReporter::ReportGroupEnd(const CollGroupParams& group,
                                 const absl::Status& reason) {
  std::set<int> tasks = TasksOf(group);
  const auto leader = options_.leadership->leader();
  if (leader.ok()) tasks.insert(*leader);
  tasks.erase(options_.cluster.this_task);
  for (int task : tasks) {
    ReportGroupEnd(task, group.key, group.generation, reason);
  }
}

void EndReporter::ReportGroupEnd(int task, GroupKey key, uint64_t generation,
                                 const absl::Status& reason,
                                 ControlDone reported,
                                 std::shared_ptr<Cancellation> cancellation) {
  proto::ControlRequest request;
  proto::EndGroup* const message = request.mutable_end_group();
  message->set_group_key(key);
  message->set_generation(generation);
  *message->mutable_reason() = EncodeError(reason);
  for (int lost : options_.leadership->lost_tasks()) {
    message->add_lost_tasks(lost);
  }
  options_.channel->Call(
      task, std::move(request),
      {.deadline = options_.environment.clock->Now() + kLimit,
       .cancellation = std::move(cancellation)},
      std::move(reported));
}

// Sends the report again if the leader does not take it, perhaps to another
// leader.
void EndReporter::ReportGivenUp(const GivenUp& given_up, absl::Time limit) {
  const auto leader = options_.leadership->leader();
  if (!leader.ok()) return;  // No member waits at a leader.
  if (*leader == options_.cluster.this_task) {
    return ReportAllGivenUp(given_up);
  }
  options_.channel->Call(
      *leader, Encode(given_up), {.deadline = limit},
      IfAlive(weak_from_this(), &EndReporter::OnGivenUpReported, given_up,
              limit, *leader));
}

void EndReporter::OnGivenUpReported(const GivenUp& given_up, absl::Time limit,
                                    int leader, const ControlAnswer& answer) {
  if (answer.ok()) return;
  const auto leads_now = options_.leadership->leader();
  const bool is_same = leads_now.ok() && *leads_now == leader;
  if (is_same && !absl::IsUnavailable(answer.status())) return;
  const absl::Time next =
      options_.environment.clock->Now() + DefaultTime("call again");
  if (next >= limit) return;
  options_.environment.clock->CallAt(
      next, IfAlive(weak_from_this(), [given_up, limit](EndReporter& self) {
        self.ReportGivenUp(given_up, limit);
      }));
}

// Reports to all tasks, even those without a known part in the group: the group
// may not be formed yet.
void EndReporter::ReportAllGivenUp(const GivenUp& given_up) {
  const std::vector<int> lost = options_.leadership->lost_tasks();
  std::set<int> without = {lost.begin(), lost.end()};
  without.insert(options_.cluster.this_task);
  const absl::Time deadline = options_.environment.clock->Now() + kLimit;
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (without.contains(task)) continue;
    options_.channel->Call(task, Encode(given_up), {.deadline = deadline},
                           [](const ControlAnswer&) {});
  }
}

}  // namespace tutti
