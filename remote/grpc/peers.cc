#include "remote/grpc/peers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "remote/grpc/channel_arguments.h"

namespace tutti {
namespace {

constexpr size_t kMaxReplaced = 16;

}  // namespace

Peers::Peers(const GrpcTransportOptions* options,
             std::shared_ptr<grpc::ChannelCredentials> credentials)
    : options_(options),
      credentials_(std::move(credentials)),
      job_{.job_id = options->job_id, .token = options->token} {}

absl::Status Peers::CheckTask(int task) const {
  const int num_tasks = options_->cluster.num_tasks();
  if (task >= 0 && task < num_tasks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no task ", task, ": the cluster has ", num_tasks, " tasks"));
}

std::shared_ptr<grpc::Channel> Peers::ControlChannel(int task) {
  return Channel(task, kControlLane);
}

std::shared_ptr<grpc::Channel> Peers::TransferChannel(int task, int lane) {
  return Channel(task, lane);
}

std::shared_ptr<grpc::Channel> Peers::Channel(int task, int lane) {
  MutexLock lock(&mu_);
  std::shared_ptr<grpc::Channel>& channel = channels_[{task, lane}];
  if (channel != nullptr) return channel;

  const GrpcBounds& bounds = options_->bounds;
  // Many small frames may share a message.
  const size_t max_message_bytes =
      lane == kControlLane ? bounds.max_control_reply_bytes
                           : 2 * bounds.max_frame_bytes + (size_t{1} << 16);
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : ClientSettings(max_message_bytes)) {
    arguments.SetInt(name, value);
  }
  if (options_->tls.enabled()) {
    arguments.SetSslTargetNameOverride(CertifiedName(task));
  }
  // Whatever the address looks like, it is one of a host.
  channel = grpc::CreateCustomChannel(
      absl::StrCat("dns:///", options_->cluster.addresses[task]), credentials_,
      arguments);
  return channel;
}

uint64_t Peers::Identify(int task, grpc::ClientContext& context,
                         bool to_any_process) {
  uint64_t expected = 0;
  if (!to_any_process) {
    MutexLock lock(&mu_);
    const auto it = processes_.find(task);
    if (it != processes_.end()) expected = it->second.incarnation;
  }
  AddIdentity(job_,
              {.caller = options_->cluster.this_task,
               .caller_incarnation = options_->incarnation,
               .callee = task,
               .callee_incarnation = expected},
              context);
  return expected;
}

// True if it is another one than before. A late word of one that has been
// replaced changes nothing.
bool Peers::SetIncarnation(int task, uint64_t incarnation) {
  Process& process = processes_[task];
  auto& replaced = process.replaced;
  if (process.incarnation == incarnation ||
      std::find(replaced.begin(), replaced.end(), incarnation) !=
          replaced.end()) {
    return false;
  }
  if (process.incarnation != 0) replaced.push_back(process.incarnation);
  if (replaced.size() > kMaxReplaced) replaced.pop_front();
  process.incarnation = incarnation;
  return true;
}

// A channel that could not connect fails calls until it tries again, and one to
// a process that is gone may not have noticed; new ones connect at once.
void Peers::OnCall(const ControlCaller& caller) {
  std::vector<std::shared_ptr<grpc::Channel>> dropped;
  {
    MutexLock lock(&mu_);
    const auto known = processes_.find(caller.task);
    const bool is_first = known == processes_.end();
    if (!SetIncarnation(caller.task, caller.incarnation)) return;
    for (auto& [key, channel] : channels_) {
      if (key.first != caller.task || channel == nullptr) continue;
      const bool is_failing = channel->GetState(/*try_to_connect=*/false) ==
                              GRPC_CHANNEL_TRANSIENT_FAILURE;
      if (is_failing || !is_first) dropped.push_back(std::move(channel));
    }
  }
  if (dropped.empty()) return;
  // Not here, on a thread of gRPC's.
  options_->environment.queue->Schedule([dropped = std::move(dropped)] {});
}

absl::Status Peers::Observe(int task, uint64_t expected, uint64_t incarnation) {
  {
    MutexLock lock(&mu_);
    SetIncarnation(task, incarnation);
  }
  if (expected == 0 || expected == incarnation) return absl::OkStatus();
  return Restarted(Label(task), expected, incarnation);
}

void Peers::Close() {
  absl::flat_hash_map<std::pair<int, int>, std::shared_ptr<grpc::Channel>>
      channels;
  {
    MutexLock lock(&mu_);
    channels.swap(channels_);
  }
}

}  // namespace tutti
