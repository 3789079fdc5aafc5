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
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

constexpr size_t kMaxReplaced = 16;

}  // namespace

Peers::Peers(const GrpcTransportOptions* options,
             std::shared_ptr<grpc::ChannelCredentials> credentials)
    : options_(options),
      credentials_(std::move(credentials)),
      job_(IdentityOf(*options)),
      dialer_(Dialer::Create(
          {.party = {.cluster = &options->cluster, .token = &options->token},
           .environment = options->environment,
           .same_host = options->same_host_socket})) {}

absl::Status Peers::CheckTask(int task) const {
  const int num_tasks = options_->cluster.num_tasks();
  if (task >= 0 && task < num_tasks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no task ", task, ": the cluster has ", num_tasks, " tasks"));
}

bool Peers::Way::is_failing() const {
  if (socket.is_set()) return IsClosedByPeer(socket.get());
  return channel->GetState(/*try_to_connect=*/false) ==
         GRPC_CHANNEL_TRANSIENT_FAILURE;
}

void Peers::Connect(int task, int lane, OnLink done) {
  const std::pair<int, int> key = {task, lane};
  OnLink report;
  absl::StatusOr<Link> known;
  std::shared_ptr<Attempt> attempt;
  {
    MutexLock lock(&mu_);
    Way& way = ways_[key];
    way.was_used = true;
    const auto found = FindLink(task, lane, way);
    if (found) {
      known = *found;
      report = std::move(done);
    } else {
      const bool is_under_way = way.attempt != nullptr;
      if (!is_under_way) way.attempt = std::make_shared<Attempt>();
      way.attempt->waiting.push_back(std::move(done));
      if (is_under_way) return;
      attempt = way.attempt;
    }
  }
  if (report != nullptr) return std::move(report)(std::move(known));
  dialer_->Dial(task, [=, this](absl::StatusOr<ProvenSocket> socket) {
    OnDialed(key, attempt, std::move(socket));
  });
}

std::optional<absl::StatusOr<Peers::Link>> Peers::FindLink(int task, int lane,
                                                           Way& way) const {
  const bool has_tls = options_->tls.enabled();
  if (way.channel == nullptr && has_tls) way.channel = TlsChannel(task, lane);
  // Channels with TLS connect again by themselves.
  if (way.channel != nullptr && (has_tls || !way.is_failing())) {
    return Link{.channel = way.channel, .process = way.process};
  }
  if (options_->environment.clock->Now() < way.next_attempt) {
    return way.last_error;
  }
  return std::nullopt;
}

void Peers::OnDialed(const std::pair<int, int>& key,
                     const std::shared_ptr<Attempt>& attempt,
                     absl::StatusOr<ProvenSocket> socket) {
  const auto& [task, lane] = key;
  FileDescriptor second;
  if (socket.ok()) {
    second = FileDescriptor(fcntl(socket->fd.get(), F_DUPFD_CLOEXEC, 0));
  }
  if (socket.ok() && !second.is_set()) {
    socket = ConnectionError(
        Label(task), grpc::Status(grpc::UNAVAILABLE, "Too many open files"));
  }
  absl::StatusOr<Link> link = absl::UnknownError("not dialed");
  if (socket.ok()) {
    link = Link{.channel = grpc::CreateCustomInsecureChannelFromFd(
                    Label(task), socket->fd.Release(), ArgumentsFor(lane)),
                .process = socket->process};
  } else {
    link = socket.status();
  }
  std::shared_ptr<grpc::Channel> replaced;
  std::vector<OnLink> waiting;
  {
    MutexLock lock(&mu_);
    waiting.swap(attempt->waiting);
    Way& way = ways_[key];
    const bool is_current = way.attempt == attempt;
    if (is_current) way.attempt = nullptr;
    if (is_current && link.ok()) {
      replaced = std::exchange(way.channel, link->channel);
      way.socket = std::move(second);
      way.process = link->process;
      way.pause = absl::ZeroDuration();
    } else if (is_current) {
      way.last_error = link.status();
      way.pause = std::clamp(2 * way.pause, DefaultTime("connect again"),
                             DefaultTime("connect late"));
      way.next_attempt = options_->environment.clock->Now() + way.pause;
    }
  }
  DropSoon(std::move(replaced));
  for (OnLink& done : waiting) std::move(done)(link);
  if (link.ok()) DropSoon(std::move(link->channel));
}

std::shared_ptr<grpc::Channel> Peers::TlsChannel(int task, int lane) const {
  grpc::ChannelArguments arguments = ArgumentsFor(lane);
  arguments.SetSslTargetNameOverride(CertifiedName(task));
  // Every address names a host, whatever it looks like.
  return grpc::CreateCustomChannel(
      absl::StrCat("dns:///", options_->cluster.addresses[task]), credentials_,
      arguments);
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

// Drops channels, and the pause before the next attempt to connect. A channel
// to a former process may not have noticed that it is gone.
void Peers::OnCall(const ControlCaller& caller) {
  MutexLock lock(&mu_);
  const bool is_first = !processes_.contains(caller.task);
  if (!SetIncarnation(caller.task, caller.incarnation)) return;
  for (auto& [key, way] : ways_) {
    if (key.first != caller.task) continue;
    way.next_attempt = absl::InfinitePast();
    if (!is_first) way.attempt = nullptr;
    if (way.channel == nullptr || (is_first && !way.is_failing())) continue;
    DropLink(way);
  }
}

void Peers::DropLink(Way& way) const {
  DropSoon(std::exchange(way.channel, nullptr));
  way.socket = FileDescriptor();
}

// Drops it on the work queue: this may be a thread of gRPC.
void Peers::DropSoon(std::shared_ptr<grpc::Channel> channel) const {
  if (channel == nullptr) return;
  options_->environment.queue->Schedule([dropped = std::move(channel)] {});
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

// Calls under way share the channel.
void Peers::CloseIdle() {
  MutexLock lock(&mu_);
  for (auto& [key, way] : ways_) {
    const bool was_used = std::exchange(way.was_used, false);
    if (was_used || way.channel.use_count() != 1) continue;
    DropLink(way);
  }
}

void Peers::Close() {
  dialer_->Close();
  absl::flat_hash_map<std::pair<int, int>, Way> ways;
  {
    MutexLock lock(&mu_);
    ways.swap(ways_);
  }
}

}  // namespace tutti
