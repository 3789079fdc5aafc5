#include "resolvers/membership/step_sequence_distributed.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {

void StepSequenceDistributed::RefreshStepIdSequenceAsync(int64_t graph_key,
                                                         StatusCallback done) {
  const auto leader = options_.leadership->leader();
  if (!leader.ok()) return std::move(done)(leader.status());
  proto::ControlRequest request;
  proto::StepSequence* const message = request.mutable_step_sequence();
  message->set_graph_key(graph_key);
  {
    MutexLock lock(&mu_);
    const auto [requested, is_new] = requested_.try_emplace(graph_key);
    if (is_new) requested->second = ++last_number_;
    message->set_number(requested->second);
  }
  const uint64_t number = message->number();
  if (*leader == options_.cluster.this_task) {
    return OnReply(graph_key, number,
                   Draw({*leader, options_.incarnation}, *message),
                   std::move(done));
  }
  options_.channel->Call(
      *leader, std::move(request),
      {.deadline = options_.environment.clock->Now() + options_.limit,
       .wait_until_reachable = true},
      [self = shared_from_this(), graph_key, number,
       done = std::move(done)](const ControlAnswer& reply) mutable {
        self->OnReply(graph_key, number, reply, std::move(done));
      });
}

void StepSequenceDistributed::OnReply(int64_t graph_key, uint64_t number,
                                      const ControlAnswer& reply,
                                      StatusCallback done) {
  if (!reply.ok()) return std::move(done)(reply.status());
  const int64_t id = reply->step_sequence().step_id();
  if (!reply->has_step_sequence() || id < 0 || id > kMaxStepId) {
    return std::move(done)(absl::InvalidArgumentError(
        absl::StrCat("the leader gives graph ", graph_key, " the step id ", id,
                     "; wanted 0 to ", kMaxStepId)));
  }
  {
    MutexLock lock(&mu_);
    const auto requested = requested_.find(graph_key);
    if (requested != requested_.end() && requested->second == number) {
      next_.Set(graph_key, id);
      requested_.erase(requested);
    }
  }
  std::move(done)(absl::OkStatus());
}

absl::StatusOr<proto::ControlReply> StepSequenceDistributed::Draw(
    const ControlCaller& caller, const proto::StepSequence& message) {
  const ClusterSpec& cluster = options_.cluster;
  ASSIGN_OR_RETURN(const auto leader, options_.leadership->leader());
  if (leader != cluster.this_task) {
    return absl::FailedPreconditionError(
        absl::StrCat(cluster.Label(cluster.this_task), " draws no step ids: ",
                     cluster.Label(leader), " leads, as far as it knows"));
  }
  const Given given{caller.incarnation, message.number()};
  const int64_t drawn = DrawStepId(*options_.environment.random);
  MutexLock lock(&mu_);
  const auto [entry, is_new] = rounds_.try_emplace(message.graph_key());
  Round& round = entry->second;
  if (is_new && rounds_.size() > options_.max_graphs) {
    rounds_.erase(entry);
    return absl::ResourceExhaustedError(
        absl::StrCat(cluster.Label(cluster.this_task), " draws step ids for ",
                     options_.max_graphs, " graphs already, and not for graph ",
                     message.graph_key(), " too"));
  }
  const auto [before, is_first] = round.given.try_emplace(caller.task, given);
  if (is_new || (!is_first && before->second != given)) {
    round.first_id = drawn;
    round.given.clear();
    round.given.emplace(caller.task, given);
  }
  proto::ControlReply reply;
  reply.mutable_step_sequence()->set_step_id(round.first_id);
  return reply;
}

void StepSequenceDistributed::ForgetGraph(int64_t graph_key) {
  MutexLock lock(&mu_);
  requested_.erase(graph_key);
  next_.Forget(graph_key);
  rounds_.erase(graph_key);
}

}  // namespace tutti
