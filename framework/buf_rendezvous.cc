#include "framework/buf_rendezvous.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

absl::Status CheckMatch(const BufKey& key, const Offer& offer, const Ask& ask) {
  if (offer.incarnation != ask.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        ToString(key), ": the sender's device restarted: expected incarnation ",
        ask.incarnation, ", found ", offer.incarnation));
  }
  if (offer.bytes.size() != ask.num_bytes || offer.dtype != ask.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(key), ": the sender offers ", offer.bytes.size(),
                     " bytes of ", Name(offer.dtype), ", the receiver wants ",
                     ask.num_bytes, " bytes of ", Name(ask.dtype)));
  }
  return absl::OkStatus();
}

void FailAsk(Ask ask, const absl::Status& status) {
  std::move(ask.consumer)(status, Delivery{});
}

void FailOffer(Offer offer, const absl::Status& status) {
  std::move(offer.released)(status);
}

// Both sides are there. No lock is held.
void Meet(const BufKey& key, Offer offer, Ask ask) {
  const absl::Status status = CheckMatch(key, offer, ask);
  if (!status.ok()) {
    FailAsk(std::move(ask), status);
    FailOffer(std::move(offer), status);
    return;
  }
  std::move(ask.consumer)(absl::OkStatus(),
                          {offer.bytes, std::move(offer.released)});
}

absl::Status TakenError(const BufKey& key, absl::string_view side) {
  return absl::AlreadyExistsError(
      absl::StrCat(ToString(key), ": ", side, " twice"));
}

}  // namespace

BufRendezvous::~BufRendezvous() {
  StartAbort(absl::CancelledError(
      "the step ended while a transfer waited for its other side"));
}

absl::Status BufRendezvous::CancelledStatus(const ExecKey& exec) const {
  if (num_cancelled_.load(std::memory_order_seq_cst) == 0) {
    return absl::OkStatus();
  }
  MutexLock lock(&cancelled_mu_);
  if (!aborted_.ok()) return aborted_;
  const auto found = cancelled_.find(exec);
  return found == cancelled_.end() ? absl::OkStatus() : found->second;
}

void BufRendezvous::Provide(const BufKey& key, Offer offer) {
  Shard& shard = ShardOf(key);
  absl::Status status;
  Ask ask;
  {
    MutexLock lock(&shard.mu);
    status = CancelledStatus(key.exec);
    if (status.ok()) {
      const auto [entry, is_first] = shard.table.try_emplace(key);
      if (is_first) {
        entry->second.offer = std::move(offer);
        entry->second.is_offer = true;
        return;
      }
      if (entry->second.is_offer) {
        status = TakenError(key, "offered");
      } else {
        ask = std::move(entry->second.ask);
        shard.table.erase(entry);
      }
    }
  }
  if (!status.ok()) return FailOffer(std::move(offer), status);
  Meet(key, std::move(offer), std::move(ask));
}

void BufRendezvous::Consume(const BufKey& key, Ask ask) {
  Shard& shard = ShardOf(key);
  absl::Status status;
  Offer offer;
  {
    MutexLock lock(&shard.mu);
    status = CancelledStatus(key.exec);
    if (status.ok()) {
      const auto [entry, is_first] = shard.table.try_emplace(key);
      if (is_first) {
        entry->second.ask = std::move(ask);
        return;
      }
      if (!entry->second.is_offer) {
        status = TakenError(key, "asked for");
      } else {
        offer = std::move(entry->second.offer);
        shard.table.erase(entry);
      }
    }
  }
  if (!status.ok()) return FailAsk(std::move(ask), status);
  Meet(key, std::move(offer), std::move(ask));
}

void BufRendezvous::CancelExecution(const ExecKey& exec, absl::Status reason) {
  {
    MutexLock lock(&cancelled_mu_);
    if (!cancelled_.try_emplace(exec, reason).second) return;
    num_cancelled_.fetch_add(1, std::memory_order_seq_cst);
  }
  Sweep(reason, [&exec](const BufKey& key) { return key.exec == exec; });
}

void BufRendezvous::ForgetExecution(const ExecKey& exec) {
  if (num_cancelled_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(&cancelled_mu_);
  const auto erased = static_cast<int>(cancelled_.erase(exec));
  num_cancelled_.fetch_sub(erased, std::memory_order_seq_cst);
}

void BufRendezvous::StartAbort(absl::Status reason) {
  {
    MutexLock lock(&cancelled_mu_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    num_cancelled_.fetch_add(1, std::memory_order_seq_cst);
  }
  Sweep(reason, [](const BufKey&) { return true; });
}

void BufRendezvous::Sweep(const absl::Status& reason,
                          absl::FunctionRef<bool(const BufKey&)> concerns) {
  std::vector<Waiting> ended;
  for (Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    for (auto entry = shard.table.begin(); entry != shard.table.end();) {
      const auto current = entry++;
      if (!concerns(current->first)) continue;
      ended.push_back(std::move(current->second));
      shard.table.erase(current);
    }
  }
  for (Waiting& side : ended) {
    if (side.is_offer) {
      FailOffer(std::move(side.offer), reason);
    } else {
      FailAsk(std::move(side.ask), reason);
    }
  }
}

size_t BufRendezvous::num_waiting() const {
  size_t total = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    total += shard.table.size();
  }
  return total;
}

}  // namespace tutti
