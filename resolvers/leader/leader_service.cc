#include "resolvers/leader/leader_service.h"

#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/collective/group_resources.h"
#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"
#include "resolvers/messages/group_codec.h"

namespace tutti {
namespace {

// Largest number of waiting calls per task.
constexpr int kMaxCallsOfTask = 65536;
constexpr size_t kMaxBytesOfTask = size_t{64} << 20;

// Message about a group, encoded once for all its members.
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
  if (params.instance != nullptr) {
    *settled->mutable_instance() = EncodeInstance(*params.instance);
  }
  return reply;
}

// Encodes an error as a reply too: the caller must not take it for an error of
// the connection.
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
  // Cancelled by the caller, who wants no answer, or by EndStep(), which does.
  const auto end = std::make_shared<Cancellation>();
  withdrawn->Watch([end](const absl::Status& reason) { end->Cancel(reason); });
  const bool group_only = !call->number.has_value();
  Waiting waiting = {
      .task = caller.task, .num_bytes = message.ByteSizeLong(), .end = end};
  if (!group_only) waiting.step = call->number->step_id;
  const auto number = Add(std::move(waiting));
  if (!number.ok()) return std::move(done)(number.status());
  // Check after Add(): from then on EndStep() finds the call.
  absl::Status given_up;
  if (!group_only) {
    given_up = given_up_->Find(
        KeyOf({call->request->group_key, call->request->instance_key},
              *call->number));
  }
  if (!given_up.ok()) {
    Remove(*number);
    return std::move(done)(EncodeAnswer({std::move(given_up)}, 0));
  }
  const uint64_t known_generation = call->living_generation;
  led_->Join({.device = std::move(call->device),
              .request = std::move(call->request),
              .cancellation = end,
              .ended_generation = call->ended_generation,
              .living_generation = call->living_generation,
              .group_only = group_only,
              .requests_once = true,
              .is_remote = true},
             [self = shared_from_this(), number = *number, known_generation,
              done = std::move(done)](LeaderAnswer answer) mutable {
               self->Remove(number);
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

absl::StatusOr<uint64_t> LeaderService::Add(Waiting call) {
  MutexLock lock(&mu_);
  CallsOfTask& calls = calls_of_task_[call.task];
  if (calls.count >= kMaxCallsOfTask ||
      calls.num_bytes + call.num_bytes > kMaxBytesOfTask) {
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.cluster.Label(call.task), " has ", calls.count, " calls of ",
        calls.num_bytes, " bytes that wait at the leader; wanted are at most ",
        kMaxCallsOfTask, " calls of ", kMaxBytesOfTask, " bytes"));
  }
  ++calls.count;
  calls.num_bytes += call.num_bytes;
  calls_.emplace(++last_number_, std::move(call));
  return last_number_;
}

void LeaderService::Remove(uint64_t number) {
  Waiting removed;  // Freed without the lock.
  MutexLock lock(&mu_);
  const auto call = calls_.find(number);
  removed = std::move(call->second);
  calls_.erase(call);
  const auto calls = calls_of_task_.find(removed.task);
  calls->second.num_bytes -= removed.num_bytes;
  if (--calls->second.count == 0) calls_of_task_.erase(calls);
}

void LeaderService::EndStep(int64_t step_id) {
  std::vector<std::shared_ptr<Cancellation>> ended;
  {
    MutexLock lock(&mu_);
    for (const auto& [number, call] : calls_) {
      if (call.step == step_id) ended.push_back(call.end);
    }
  }
  for (const auto& end : ended) end->Cancel(StepHasEndedError(step_id));
}

size_t LeaderService::num_waiting() {
  MutexLock lock(&mu_);
  return calls_.size();
}

proto::ControlReply LeaderService::DescribeWaiting(
    const proto::DescribeWaiting& message) {
  CollectiveRequest request;
  request.group_key = message.group_key();
  request.instance_key = message.instance_key();
  proto::ControlReply reply;
  reply.mutable_describe_waiting()->set_text(led_->DescribeWaiting(request));
  return reply;
}

}  // namespace tutti
