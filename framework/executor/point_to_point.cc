#include "framework/executor/point_to_point.h"

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/collective/group_part.h"
#include "framework/collective/group_resources.h"
#include "framework/collective/member_params.h"
#include "framework/executor/call.h"
#include "framework/peer/message_key.h"

namespace tutti {
namespace {

// Schedule that runs a message: the chain of two members, in one piece.
constexpr absl::string_view kImplementation = "ChainBroadcast";

// Two members of a group.
struct Pair {
  std::shared_ptr<const CollGroupParams> group;
  std::shared_ptr<const CollTaskParams> task;
};

Pair MakePair(const CollGroupParams& whole, int from, int to,
              const DeviceManager& devices) {
  auto group = MakeGroupPart(
      whole, from == to ? std::vector<int>{to} : std::vector<int>{from, to});
  auto task = std::make_shared<CollTaskParams>();
  for (const CollGroupMember& member : group->members) {
    task->is_local.push_back(devices.Find(member.device.name.ToString()).ok());
    task->num_local += task->is_local.back() ? 1 : 0;
  }
  return {.group = std::move(group), .task = std::move(task)};
}

// Ranks and pairs of a group: a resource of it. Thread-safe.
class Pairs {
 public:
  // Rank of the device in the group; -1 if it is no member.
  int RankOf(const CollGroupParams& group, const Device& device)
      ABSL_LOCKS_EXCLUDED(mu_) {
    std::call_once(once_, [&] {
      for (int rank = 0; rank < group.size(); ++rank) {
        const auto& member = group.members[static_cast<size_t>(rank)].device;
        rank_of_device_[member.name.ToString()] = rank;
      }
    });
    const auto found = rank_of_device_.find(device.full_name());
    if (found == rank_of_device_.end()) return -1;
    const auto& member = group.members[static_cast<size_t>(found->second)];
    return member.device.incarnation == device.attributes().incarnation
               ? found->second
               : -1;
  }

  Pair Of(const CollGroupParams& group, int from, int to,
          const DeviceManager& devices) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    Pair& pair = pairs_[std::pair(from, to)];
    if (pair.group == nullptr) pair = MakePair(group, from, to, devices);
    return pair;
  }

 private:
  std::once_flag once_;
  absl::flat_hash_map<std::string, int> rank_of_device_;  // Under the flag.
  Mutex mu_;
  absl::flat_hash_map<std::pair<int, int>, Pair> pairs_ ABSL_GUARDED_BY(mu_);
};

// Runs `done` with the first error once two calls have ended.
class TwoCalls {
 public:
  explicit TwoCalls(StatusCallback done) : done_(std::move(done)) {}

  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status first_error;
    {
      MutexLock lock(&mu_);
      first_error_.Update(status);
      if (--num_left_ > 0) return;
      first_error = first_error_;
    }
    std::move(done_)(std::move(first_error));
  }

 private:
  StatusCallback done_;
  Mutex mu_;
  int num_left_ ABSL_GUARDED_BY(mu_) = 2;
  absl::Status first_error_ ABSL_GUARDED_BY(mu_);
};

// Checks all arguments but the device's membership.
absl::Status CheckMessage(const PointToPointArgs& args, bool sends) {
  if (args.device == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        sends ? "a send" : "a receive", " was called without a device"));
  }
  const auto invalid = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.device->full_name(), " called a ",
                     sends ? "send" : "receive", what...));
  };
  if (args.group == nullptr) return invalid(" without a group");
  const bool is_any = !sends && args.peer == PointToPointArgs::kAnyPeer;
  if (is_any && args.group->size() == 1) {
    return invalid(" from any member of group ", args.group->key,
                   ", which has no other");
  }
  if (!is_any && (args.peer < 0 || args.peer >= args.group->size())) {
    return invalid(sends ? " to" : " from", " rank ", args.peer, " of group ",
                   args.group->key, ", which has ", args.group->size(),
                   " members");
  }
  if (args.tag < 0) {
    return invalid(" with tag ", args.tag, "; wanted 0 or more");
  }
  if (!args.tensor.is_set()) return invalid(" without a tensor");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Message> MakeMessage(const PointToPointArgs& args, bool sends,
                                    const DeviceManager& devices) {
  RETURN_IF_ERROR(CheckMessage(args, sends));
  const auto pairs = args.group->resources->GetOrCreate<Pairs>();
  const int rank = pairs->RankOf(*args.group, *args.device);
  if (rank < 0 || rank == args.peer) {
    return absl::InvalidArgumentError(absl::StrCat(
        args.device->full_name(), " called a ", sends ? "send" : "receive",
        rank < 0 ? " in a group without it, group "
                 : " with itself as the other member, in group ",
        args.group->key));
  }
  const bool is_any = args.peer == PointToPointArgs::kAnyPeer;
  const int from = sends || is_any ? rank : args.peer;
  const int to = sends ? args.peer : rank;
  auto request = std::make_shared<CollectiveRequest>(
      CollectiveRequest{.group_key = args.group->key,
                        .group_size = is_any ? 1 : 2,
                        .device_type = args.group->device_type,
                        .rank = sends || is_any ? 0 : 1,
                        .instance_key = KeyOf(MessagePath{from, to, args.tag}),
                        .op = Broadcast{.is_source = sends},
                        .dtype = args.tensor.dtype(),
                        .shape = args.tensor.shape()});
  auto instance = std::make_shared<CollInstanceParams>();
  instance->key = request->instance_key;
  instance->type = CollectiveType::kBroadcast;
  instance->dtype = request->dtype;
  instance->shape = request->shape;
  instance->rows_are_given = true;  // The sizes may differ; one may be 0.
  instance->impl_details.implementation = std::string(kImplementation);
  instance->impl_details.subdiv_offsets = {0};
  Pair pair = pairs->Of(*args.group, from, to, devices);
  ASSIGN_OR_RETURN(auto params,
                   MakeMemberParams(std::move(pair.group), std::move(instance),
                                    std::move(pair.task), request->rank));
  return Message{.request = std::move(request), .params = std::move(params)};
}

void Call::SendOrRecv(CollectiveExecutor& executor, PointToPointArgs& args,
                      bool sends, StatusCallback done) {
  if (done == nullptr) done = [](absl::Status) {};
  auto message = MakeMessage(args, sends, *executor.core().options().devices);
  if (!message.ok()) {
    return FinishOnTrampoline(std::move(done), message.status());
  }
  if (args.peer == PointToPointArgs::kAnyPeer) {
    return RecvFromAny(executor, args, *std::move(message), std::move(done));
  }
  BeginMessage(executor, args, *std::move(message), std::move(done));
}

void Call::BeginMessage(CollectiveExecutor& executor, PointToPointArgs& args,
                        Message message, StatusCallback done,
                        ExecutionTable::Joined* joined_before) {
  const bool sends = message.params->is_source;
  Call* const call = new Call(executor, args.device, Kind::kMessage);
  call->done_ = std::move(done);
  CollectiveArgs of_call = {.device = args.device,
                            .request = std::move(message.request),
                            .input = sends ? args.tensor : Tensor(),
                            .output = &args.tensor,
                            .deadline = args.deadline,
                            .cancellation = args.cancellation};
  call->Begin(of_call, std::move(message.params), joined_before);
}

// Makes a call that ends when the receive has a message, and then another one
// that receives it.
void Call::RecvFromAny(CollectiveExecutor& executor, PointToPointArgs& args,
                       Message message, StatusCallback done) {
  auto receive = std::make_shared<AnyReceive>(
      AnyReceive{.args = args,
                 .rank = PathOf(message.request->instance_key).to,
                 .start = executor.environment().clock->Now(),
                 .executor = executor.shared_from_this(),
                 .done = std::move(done)});
  Call* const call = new Call(executor, args.device, Kind::kMessage);
  call->any_receive_ = receive;
  call->done_ = [receive](const absl::Status& status) {
    if (receive->joined.execution == nullptr) {
      return std::move(receive->done)(DescribeEnd(*receive, status));
    }
    if (receive->args.sender != nullptr) {
      *receive->args.sender = receive->args.peer;
    }
    BeginMessage(*receive->executor, receive->args, std::move(receive->message),
                 std::move(receive->done), &receive->joined);
  };
  CollectiveArgs of_call = {.device = args.device,
                            .request = std::move(message.request),
                            .deadline = args.deadline,
                            .cancellation = args.cancellation};
  call->Begin(of_call, std::move(message.params));
}

void CollectiveExecutor::SendAsync(PointToPointArgs args, StatusCallback done) {
  Call::SendOrRecv(*this, args, /*sends=*/true, std::move(done));
}

void CollectiveExecutor::RecvAsync(PointToPointArgs args, StatusCallback done) {
  Call::SendOrRecv(*this, args, /*sends=*/false, std::move(done));
}

void CollectiveExecutor::SendRecvAsync(PointToPointArgs send,
                                       PointToPointArgs recv,
                                       StatusCallback done) {
  if (done == nullptr) done = [](absl::Status) {};
  if (send.tensor.is_set() && recv.tensor.is_set() &&
      OverlapOf(send.tensor, recv.tensor) != Overlap::kNone) {
    return FinishOnTrampoline(
        std::move(done),
        absl::InvalidArgumentError(
            "the tensors of a send and receive overlap; wanted two of them"));
  }
  const auto both = std::make_shared<TwoCalls>(std::move(done));
  const auto end = [both](const absl::Status& status) { both->End(status); };
  RecvAsync(std::move(recv), end);
  SendAsync(std::move(send), end);
}

}  // namespace tutti
