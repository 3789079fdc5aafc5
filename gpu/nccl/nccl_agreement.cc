#include "gpu/nccl/nccl_agreement.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/collective/given_rows.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int kNumKinds = 3;

// Size of a message without content.
constexpr size_t kSignalBytes = sizeof(int64_t);

std::vector<int> OthersOf(const CollectiveContext& context) {
  std::vector<int> others;
  if (context.rank() != 0) return {0};
  for (const std::vector<int>& ranks : context.params->group->layout->tasks()) {
    if (ranks[0] != 0) others.push_back(ranks[0]);
  }
  return others;
}

}  // namespace

NcclAgreement::NcclAgreement(const CollectiveContext& context)
    : context_(context),
      executor_(context.executor->shared_from_this()),
      group_(context.params->group),
      others_(OthersOf(context)),
      theirs_(others_.size()) {}

BufKey NcclAgreement::KeyOf(Kind kind, int from, int to) const {
  return {.exec = kind == Kind::kLaunch ? ticket_.key : context_.exec_key,
          .tag = static_cast<int32_t>(kind),
          .from = from,
          .to = to};
}

void NcclAgreement::Start() {
  {
    MutexLock lock(&mu_);
    num_transfers_ += others_.size();
  }
  const Kind kind = is_first() ? Kind::kEnded : Kind::kAllEnded;
  for (size_t other = 0; other < others_.size(); ++other) Receive(kind, other);
}

void NcclAgreement::Begin(const NcclTicket& ticket) {
  ticket_ = ticket;
  ticket_.launch.rows_digest = DigestOfGivenRows(*context_.params->instance);
  std::memcpy(mine_.data(), &ticket_.launch, mine_.size());
  {
    MutexLock lock(&mu_);
    if (has_failed_) return;
    num_launches_ = others_.size();
    num_transfers_ += others_.size();
  }
  for (size_t other = 0; other < others_.size(); ++other) {
    is_first() ? Receive(Kind::kLaunch, other) : Post(Kind::kLaunch, other);
  }
}

void NcclAgreement::Post(Kind kind, size_t other) {
  const auto& members = group_->members;
  const int to = others_[other];
  const size_t num_bytes = kind == Kind::kLaunch ? mine_.size() : kSignalBytes;
  executor_->peers().PostToPeer(
      members[to], KeyOf(kind, context_.rank(), to),
      {.bytes = absl::MakeConstSpan(mine_).first(num_bytes),
       .dtype = DType::kInt64,
       .incarnation = members[context_.rank()].device.incarnation,
       .sender = this,
       .id = static_cast<int32_t>(other) * kNumKinds +
             static_cast<int32_t>(kind)});
}

void NcclAgreement::Receive(Kind kind, size_t other) {
  const auto& members = group_->members;
  const int from = others_[other];
  executor_->peers().RecvFromPeer(
      members[from], KeyOf(kind, from, context_.rank()),
      {.num_bytes = kind == Kind::kLaunch ? mine_.size() : kSignalBytes,
       .dtype = DType::kInt64,
       .incarnation = members[from].device.incarnation,
       .receiver = this,
       .id = static_cast<int32_t>(other) * kNumKinds +
             static_cast<int32_t>(kind)});
}

absl::Status NcclAgreement::OnPart(int32_t id, size_t offset,
                                   absl::Span<const std::byte> part) {
  MutexLock lock(&mu_);
  Message& message = theirs_[static_cast<size_t>(id / kNumKinds)];
  if (offset + part.size() > message.size()) {
    return absl::InternalError("more bytes than were asked for");
  }
  if (id % kNumKinds == static_cast<int>(Kind::kLaunch)) {
    std::copy(part.begin(), part.end(), message.begin() + offset);
  }
  return absl::OkStatus();
}

void NcclAgreement::OnDelivery(int32_t id, absl::Status status,
                               Delivery delivery) {
  if (status.ok() && !delivery.bytes.empty()) {
    status = OnPart(id, 0, delivery.bytes);
    delivery.Release(status);
  }
  if (status.ok() && id % kNumKinds == static_cast<int>(Kind::kLaunch)) {
    status = CheckLaunch(LaunchOf(static_cast<size_t>(id / kNumKinds)),
                         others_[static_cast<size_t>(id / kNumKinds)]);
  }
  OnTransfer(id, std::move(status));
}

void NcclAgreement::OnReleased(int32_t id, absl::Status status) {
  OnTransfer(id, std::move(status));
}

NcclLaunchId NcclAgreement::LaunchOf(size_t other) const {
  NcclLaunchId launch;
  MutexLock lock(&mu_);
  std::memcpy(&launch, theirs_[other].data(), sizeof(launch));
  return launch;
}

absl::Status NcclAgreement::CheckLaunch(const NcclLaunchId& theirs, int rank) {
  if (theirs == ticket_.launch) return absl::OkStatus();
  const absl::Status status = WhyNotSame(theirs, rank);
  // Fails their execution, too: it may be none that this process runs now.
  ExecKey their_exec = context_.exec_key;
  their_exec.instance = theirs.instance;
  their_exec.execution = theirs.execution;
  executor_->peers().CancelExecution(*group_, their_exec, status);
  return status;
}

absl::Status NcclAgreement::WhyNotSame(const NcclLaunchId& theirs,
                                       int rank) const {
  const NcclLaunchId& mine = ticket_.launch;
  const ExecKey& exec = context_.exec_key;
  NcclLaunchId same_but_rows = theirs;
  same_but_rows.rows_digest = mine.rows_digest;
  if (same_but_rows == mine) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(context_.params->instance->type), ", group ",
                     exec.group, ", instance ", exec.instance, ": rank ", rank,
                     " gives other rows than rank 0"));
  }
  NcclLaunchId same_but_before = theirs;
  same_but_before.digest = mine.digest;
  return absl::FailedPreconditionError(absl::StrCat(
      "the processes of group ", exec.group, " (generation ", exec.generation,
      ") launch NCCL's collectives in different orders: in step ", exec.step,
      " ", ToString(mine), " on rank 0, and ", ToString(theirs), " on rank ",
      rank, same_but_before == mine ? ", with others before it" : "",
      "; have one depend on the other (CollImplDetails::dependencies), or call "
      "them in one order"));
}

void NcclAgreement::OnTransfer(int32_t id, absl::Status status) {
  const auto self = shared_from_this();
  if (!status.ok()) {
    {
      MutexLock lock(&mu_);
      has_failed_ = true;
    }
    executor_->FailExecution(*context_.execution, std::move(status));
  }
  {
    MutexLock lock(&mu_);
    const int kind = id % kNumKinds;
    if (kind == static_cast<int>(Kind::kLaunch)) --num_launches_;
    if (kind == static_cast<int>(Kind::kEnded)) ++num_ended_;
    --num_transfers_;
  }
  GoOn();
}

void NcclAgreement::GoOn() {
  bool reports = false;
  absl::AnyInvocable<void() &&> over;
  {
    MutexLock lock(&mu_);
    if (!has_ended_here_) return;
    const bool have_all_ended =
        !is_first() || (num_launches_ == 0 && num_ended_ == others_.size());
    if (!has_failed_ && !has_reported_end_) {
      if (!have_all_ended) return;
      has_reported_end_ = reports = true;
      num_transfers_ += others_.size();
    }
    if (num_transfers_ == 0) over = std::exchange(over_, nullptr);
  }
  for (size_t other = 0; reports && other < others_.size(); ++other) {
    Post(reported_at_end(), other);
  }
  if (over != nullptr) std::move(over)();
}

void NcclAgreement::Cancel(absl::Status reason) {
  const auto self = shared_from_this();
  {
    MutexLock lock(&mu_);
    has_failed_ = true;
    if (num_launches_ == 0) return;
  }
  // The key of the ticket is forgotten with the step.
  executor_->peers().CancelExecution(*group_, ticket_.key, std::move(reason));
}

void NcclAgreement::EndHere(absl::AnyInvocable<void() &&> over) {
  const auto self = shared_from_this();
  {
    MutexLock lock(&mu_);
    over_ = std::move(over);
    has_ended_here_ = true;
  }
  GoOn();
}

}  // namespace tutti
