#include "resolvers/leader_service.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/rank_list.h"
#include "framework/wire_codec.h"
#include "resolvers/control_codec.h"
#include "resolvers/group_codec.h"

namespace tutti {
namespace {

// The message about a group, made once for all its members.
class EncodedGroup {
 public:
  const proto::Group& Get(const CollGroupParams& group) {
    std::call_once(once_, [&] { message_ = EncodeGroup(group); });
    return message_;
  }

 private:
  std::once_flag once_;
  proto::Group message_;
};

proto::ControlReply EncodeAnswer(const CollectiveParams& params,
                                 uint64_t known_generation) {
  proto::ControlReply reply;
  proto::Settled* const settled =
      reply.mutable_complete_params()->mutable_settled();
  const CollGroupParams& group = *params.group;
  if (group.generation == known_generation) {
    settled->mutable_group()->set_group_key(group.key);
    settled->mutable_group()->set_generation(group.generation);
  } else {
    *settled->mutable_group() =
        group.resources->GetOrCreate<EncodedGroup>()->Get(group);
  }
  *settled->mutable_instance() = EncodeInstance(*params.instance);
  return reply;
}

// As a reply also where it is an error, so that nobody takes it for one of the
// connection.
proto::ControlReply EncodeAnswer(const LeaderAnswer& answer,
                                 uint64_t known_generation) {
  if (answer.params.ok()) {
    return EncodeAnswer(**answer.params, known_generation);
  }
  proto::ControlReply reply;
  proto::GroupFailure* const failure =
      reply.mutable_complete_params()->mutable_failure();
  failure->set_generation(answer.failed_generation);
  *failure->mutable_reason() = EncodeError(answer.params.status());
  return reply;
}

}  // namespace

void LeaderService::CompleteParams(const ControlCaller& caller,
                                   const proto::CompleteParams& message,
                                   std::shared_ptr<Cancellation> withdrawn,
                                   ControlDone done) {
  auto call = DecodeMemberCall(options_.cluster, caller, message);
  if (!call.ok()) return std::move(done)(call.status());
  const auto leader = options_.leadership->leader();
  if (!leader.ok()) return std::move(done)(NotLeaderReply());
  if (*leader != options_.cluster.this_task) {
    if (options_.suspect != nullptr) options_.suspect(*leader);
    return std::move(done)(NotLeaderReply());
  }
  const ExecKey execution = KeyOf(
      {call->request->group_key, call->request->instance_key}, call->number);
  // It is not over for the member, though it may be for this task.
  options_.given_up->ContinueStep(execution.step,
                                  GivenUpExecutions::Where::kOnAllTasks);
  absl::Status given_up = options_.given_up->Find(execution);
  if (!given_up.ok()) {
    return std::move(done)(EncodeAnswer({std::move(given_up)}, 0));
  }
  absl::Status room = CountIn(caller.task);
  if (!room.ok()) return std::move(done)(std::move(room));
  const uint64_t known_generation = call->living_generation;
  options_.led->Join(
      {.device = std::move(call->device),
       .request = std::move(call->request),
       .cancellation = std::move(withdrawn),
       .ended_generation = call->ended_generation,
       .living_generation = call->living_generation,
       .asks_once = true,
       .is_remote = true},
      [self = shared_from_this(), task = caller.task, known_generation,
       done = std::move(done)](LeaderAnswer answer) mutable {
        self->CountOut(task);
        std::move(done)(EncodeAnswer(answer, known_generation));
      });
}

proto::ControlReply LeaderService::NotLeaderReply() {
  proto::ControlReply reply;
  proto::NotLeader* const message =
      reply.mutable_complete_params()->mutable_not_leader();
  for (int task : options_.leadership->lost_tasks()) {
    message->add_lost_tasks(task);
  }
  return reply;
}

absl::Status LeaderService::CountIn(int task) {
  MutexLock lock(&mu_);
  int& num_calls = num_calls_[task];
  if (num_calls < options_.max_calls_of_task) {
    ++num_calls;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(options_.cluster.Label(task), " has ", num_calls,
                   " calls that wait at the leader; wanted are at most ",
                   options_.max_calls_of_task));
}

void LeaderService::CountOut(int task) {
  MutexLock lock(&mu_);
  const auto found = num_calls_.find(task);
  if (--found->second == 0) num_calls_.erase(found);
}

size_t LeaderService::num_waiting() {
  MutexLock lock(&mu_);
  size_t total = 0;
  for (const auto& [task, num_calls] : num_calls_) total += num_calls;
  return total;
}

proto::ControlReply LeaderService::DescribeWaiting(
    const proto::DescribeWaiting& message) {
  CollectiveRequest request;
  request.group_key = message.group_key();
  request.instance_key = message.instance_key();
  proto::ControlReply reply;
  reply.mutable_describe_waiting()->set_text(
      options_.led->DescribeWaiting(request));
  return reply;
}

}  // namespace tutti
