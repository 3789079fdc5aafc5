#include "remote/grpc/connection/peers.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/support/channel_arguments.h"
#include "remote/grpc/connection/channel_arguments.h"
#include "remote/grpc/connection/same_host_socket.h"

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

std::string Peers::SameHostAddress(int task) const {
  if (!options_->same_host_socket || options_->tls.enabled()) return "";
  return options_->cluster.addresses[task];
}

bool Peers::Way::is_failing() const {
  if (is_on_same_host()) return IsClosedByPeer(same_host.get());
  return channel->GetState(/*try_to_connect=*/false) ==
         GRPC_CHANNEL_TRANSIENT_FAILURE;
}

std::shared_ptr<grpc::Channel> Peers::Channel(int task, int lane) {
  MutexLock lock(&mu_);
  Way& way = ways_[{task, lane}];
  if (way.channel != nullptr && !way.is_failing()) return way.channel;
  Way next = WayOnSameHost(task, lane);
  // TCP channels connect again by themselves.
  const bool connects_again = way.channel != nullptr && !way.is_on_same_host();
  if (next.channel == nullptr && connects_again) return way.channel;
  if (next.channel == nullptr) next = WayOverTcp(task, lane);
  DropSoon(std::exchange(way, std::move(next)));
  return way.channel;
}

Peers::Way Peers::WayOnSameHost(int task, int lane) const {
  const std::string address = SameHostAddress(task);
  if (address.empty()) return {};
  FileDescriptor socket = ConnectOnSameHost(address);
  FileDescriptor second(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (second.get() < 0) return {};
  return {.channel = grpc::CreateCustomInsecureChannelFromFd(
              Label(task), socket.Release(), ArgumentsFor(lane)),
          .same_host = std::move(second)};
}

Peers::Way Peers::WayOverTcp(int task, int lane) const {
  grpc::ChannelArguments arguments = ArgumentsFor(lane);
  if (options_->tls.enabled()) {
    arguments.SetSslTargetNameOverride(CertifiedName(task));
  }
  // Every address names a host, whatever it looks like.
  return {.channel = grpc::CreateCustomChannel(
              absl::StrCat("dns:///", options_->cluster.addresses[task]),
              credentials_, arguments)};
}

grpc::ChannelArguments Peers::ArgumentsFor(int lane) const {
  const GrpcBounds& bounds = options_->bounds;
  // Twice the frame: many small frames may share a message.
  const size_t max_message_bytes =
      lane == kControlLane ? bounds.max_control_reply_bytes
                           : 2 * bounds.max_frame_bytes + (size_t{1} << 16);
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : ClientSettings(max_message_bytes)) {
    arguments.SetInt(name, value);
  }
  return arguments;
}

uint64_t Peers::incarnation(int task) const {
  MutexLock lock(&mu_);
  const auto it = processes_.find(task);
  return it == processes_.end() ? 0 : it->second.incarnation;
}

uint64_t Peers::Identify(int task, grpc::ClientContext& context,
                         bool to_any_process) {
  const uint64_t expected = to_any_process ? 0 : incarnation(task);
  AddIdentity(job_,
              {.caller = options_->cluster.this_task,
               .caller_incarnation = options_->incarnation,
               .callee = task,
               .callee_incarnation = expected},
              context);
  return expected;
}

// Returns true if the incarnation changes. A late report of a replaced process
// changes nothing.
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

// Drops channels. A channel that failed to connect fails calls until its next
// attempt. A channel to a former process may not have noticed. New channels
// connect at once.
void Peers::OnCall(const ControlCaller& caller) {
  MutexLock lock(&mu_);
  const bool is_first = !processes_.contains(caller.task);
  if (!SetIncarnation(caller.task, caller.incarnation)) return;
  for (auto& [key, way] : ways_) {
    if (key.first != caller.task || way.channel == nullptr) continue;
    if (is_first && !way.is_failing()) continue;
    DropSoon(std::exchange(way, Way()));
  }
}

// Drops it on the work queue: this may be a thread of gRPC.
void Peers::DropSoon(Way way) const {
  options_->environment.queue->Schedule([dropped = std::move(way)] {});
}

void Peers::Free(std::unique_ptr<grpc::ClientContext> context) const {
  options_->environment.queue->Schedule([freed = std::move(context)] {});
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
  absl::flat_hash_map<std::pair<int, int>, Way> ways;
  {
    MutexLock lock(&mu_);
    ways.swap(ways_);
  }
}

}  // namespace tutti
