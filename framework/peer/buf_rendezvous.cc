#include "framework/peer/buf_rendezvous.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/peer/message_key.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

absl::Status CheckMatch(const BufKey& key, const Offer& offer,
                        const RecvRequest& recv) {
  if (offer.incarnation != recv.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        ToString(key), ": the sender's device restarted: expected incarnation ",
        recv.incarnation, ", found ", offer.incarnation));
  }
  if (offer.bytes.size() != recv.num_bytes || offer.dtype != recv.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(key), ": the sender offers ", offer.bytes.size(),
                     " bytes of ", Name(offer.dtype), ", the receiver wants ",
                     recv.num_bytes, " bytes of ", Name(recv.dtype)));
  }
  return absl::OkStatus();
}

void Fail(const RecvRequest& recv, const absl::Status& status) {
  recv.receiver->OnDelivery(recv.id, status, Delivery{});
}

void Fail(const Offer& offer, const absl::Status& status) {
  offer.sender->OnReleased(offer.id, status);
}

// Connects both sides. Call with no lock held.
void Meet(const BufKey& key, const Offer& offer, const RecvRequest& recv) {
  const absl::Status status = CheckMatch(key, offer, recv);
  if (!status.ok()) {
    Fail(recv, status);
    Fail(offer, status);
    return;
  }
  recv.receiver->OnDelivery(recv.id, absl::OkStatus(),
                            {.bytes = offer.bytes,
                             .sender = offer.sender,
                             .id = offer.id,
                             .written = offer.written});
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

template <typename Other, typename Mine>
absl::StatusOr<std::optional<Other>> BufRendezvous::MeetOrWait(
    const BufKey& key, const Mine& mine) {
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  absl::Status status = StatusOf(key.exec);
  if (!status.ok()) return status;
  const auto [entry, is_first] = shard.table.try_emplace(key, mine);
  if (is_first) {
    status = CountIn(key, mine);
    if (status.ok()) return std::nullopt;
    shard.table.erase(entry);
    return status;
  }
  const Other* const waiting = std::get_if<Other>(&entry->second);
  if (waiting == nullptr) {
    return TakenError(key,
                      std::is_same_v<Mine, Offer> ? "offered" : "asked for");
  }
  const std::optional<Other> other = *waiting;
  CountOut(*other);
  shard.table.erase(entry);
  return other;
}

absl::Status BufRendezvous::CountIn(const BufKey& key, const Offer& offer) {
  if (max_offered_bytes_ == kNoBound) return absl::OkStatus();
  const size_t requested = offer.bytes.size();
  size_t used = num_offered_bytes_.load(std::memory_order_relaxed);
  while (used == 0 || used + requested <= max_offered_bytes_) {
    if (num_offered_bytes_.compare_exchange_weak(used, used + requested,
                                                 std::memory_order_relaxed)) {
      return absl::OkStatus();
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      ToString(key), ": ", used, " bytes wait for their receivers; ", requested,
      " more would be past the bound of ", max_offered_bytes_));
}

void BufRendezvous::CountOut(const Offer& offer) {
  if (max_offered_bytes_ == kNoBound) return;
  num_offered_bytes_.fetch_sub(offer.bytes.size(), std::memory_order_relaxed);
}

void BufRendezvous::Provide(const BufKey& key, const Offer& offer) {
  const auto recv = MeetOrWait<RecvRequest>(key, offer);
  if (IsMessage(key.exec) && has_announcements_.load()) Announce(key);
  if (!recv.ok()) return Fail(offer, recv.status());
  if (recv->has_value()) Meet(key, offer, **recv);
}

void BufRendezvous::Consume(const BufKey& key, const RecvRequest& recv) {
  if (IsAnnouncement(key)) return ConsumeAnnouncement(key, recv);
  const auto offer = MeetOrWait<Offer>(key, recv);
  if (!offer.ok()) return Fail(recv, offer.status());
  if (offer->has_value()) Meet(key, **offer, recv);
}

// Either finds the offer, or waits where Announce(), which follows the offer,
// finds the request.
void BufRendezvous::ConsumeAnnouncement(const BufKey& key,
                                        const RecvRequest& recv) {
  BufKey message = key;
  message.tag = kMessageTag;
  has_announcements_.store(true);
  absl::Status status;
  {
    Shard& shard = ShardOf(key);
    MutexLock lock(&shard.mu);
    status = StatusOf(key.exec);
    if (status.ok()) {
      const auto found = shard.table.find(message);
      const bool is_offered = found != shard.table.end() &&
                              std::holds_alternative<Offer>(found->second);
      if (!is_offered) {
        if (shard.table.try_emplace(key, recv).second) return;
        status = TakenError(key, "asked for");
      }
    }
  }
  recv.receiver->OnDelivery(recv.id, std::move(status), Delivery{});
}

// Answers a request for the announcement of this message.
void BufRendezvous::Announce(BufKey key) {
  key.tag = kAnnouncementTag;
  std::optional<RecvRequest> recv;
  {
    Shard& shard = ShardOf(key);
    MutexLock lock(&shard.mu);
    const auto found = shard.table.find(key);
    if (found == shard.table.end()) return;
    recv = std::get<RecvRequest>(found->second);
    shard.table.erase(found);
  }
  recv->receiver->OnDelivery(recv->id, absl::OkStatus(), Delivery{});
}

bool BufRendezvous::CancelRecv(const BufKey& key, const Receiver* receiver,
                               absl::Status reason) {
  Shard& shard = ShardOf(key);
  std::optional<RecvRequest> recv;
  {
    MutexLock lock(&shard.mu);
    const auto found = shard.table.find(key);
    if (found == shard.table.end()) return false;
    const RecvRequest* const waiting = std::get_if<RecvRequest>(&found->second);
    if (waiting == nullptr || waiting->receiver != receiver) return false;
    recv = *waiting;
    shard.table.erase(found);
  }
  Fail(*recv, reason);
  return true;
}

void BufRendezvous::CancelRecvs(
    absl::FunctionRef<bool(const BufKey&, const Receiver*)> concerns,
    absl::FunctionRef<absl::Status(const BufKey&)> reason_of) {
  std::vector<std::pair<BufKey, RecvRequest>> ended;
  for (Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    absl::erase_if(shard.table, [&](const auto& entry) {
      const auto* const recv = std::get_if<RecvRequest>(&entry.second);
      if (recv == nullptr || !concerns(entry.first, recv->receiver)) {
        return false;
      }
      ended.emplace_back(entry.first, *recv);
      return true;
    });
  }
  for (const auto& [key, recv] : ended) Fail(recv, reason_of(key));
}

BufRendezvous::Ended BufRendezvous::End(const EndScope& scope,
                                        absl::Status reason) {
  auto first = ends_.Add(scope, std::move(reason));
  if (!first.has_value()) return {};
  return {.is_first = true, .reason = *std::move(first), .sides = Sweep(scope)};
}

bool BufRendezvous::Report(const Ended& ended) {
  for (const Waiting& side : ended.sides) {
    std::visit([&](const auto& waiting) { Fail(waiting, ended.reason); }, side);
  }
  return ended.is_first;
}

// Takes out all that waits in the scope.
std::vector<BufRendezvous::Waiting> BufRendezvous::Sweep(
    const EndScope& scope) {
  std::vector<Waiting> ended;
  for (Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    for (auto entry = shard.table.begin(); entry != shard.table.end();) {
      const auto current = entry++;
      if (!scope.Contains(current->first.exec)) continue;
      std::visit([&](const auto& waiting) { CountOut(waiting); },
                 current->second);
      ended.push_back(current->second);
      shard.table.erase(current);
    }
  }
  return ended;
}

std::string BufRendezvous::DescribeWaiting(const ExecKey& exec) const {
  std::vector<BufKey> requested;
  std::vector<BufKey> offered;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    for (const auto& [key, waiting] : shard.table) {
      // A rank that requests its own data only waits for the end of the
      // execution.
      if (key.exec != exec || key.from == key.to) continue;
      (std::holds_alternative<RecvRequest>(waiting) ? requested : offered)
          .push_back(key);
    }
  }
  const auto list = [](std::vector<BufKey>& keys, const auto& describe) {
    std::sort(keys.begin(), keys.end(), [](const BufKey& a, const BufKey& b) {
      return std::tie(a.from, a.to, a.tag) < std::tie(b.from, b.to, b.tag);
    });
    return ShortList(keys.size(), [&](size_t i) {
      return absl::StrCat(describe(keys[i]), " (tag ", keys[i].tag, ")");
    });
  };
  const std::string missing = list(requested, [](const BufKey& key) {
    return absl::StrCat("data of rank ", key.from, " for rank ", key.to);
  });
  const std::string unread = list(offered, [](const BufKey& key) {
    return absl::StrCat("rank ", key.to, " to ask rank ", key.from,
                        " for data");
  });
  const bool both = !missing.empty() && !unread.empty();
  return absl::StrCat(missing, both ? "; " : "", unread);
}

std::vector<int> BufRendezvous::RanksThatHaveNotRequested(
    const ExecKey& exec) const {
  std::set<int> ranks;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    for (const auto& [key, waiting] : shard.table) {
      const bool is_offer = !std::holds_alternative<RecvRequest>(waiting);
      if (key.exec == exec && is_offer) ranks.insert(key.to);
    }
  }
  return {ranks.begin(), ranks.end()};
}

size_t BufRendezvous::num_waiting() const {
  size_t total = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    total += shard.table.size();
  }
  return total;
}

std::string ToString(const ExecKey& key) {
  std::string group = absl::StrCat("step ", key.step, ", group ", key.group,
                                   " (generation ", key.generation, "), ");
  if (!IsMessage(key)) {
    return absl::StrCat(group, "instance ", key.instance, ", execution ",
                        key.execution);
  }
  return absl::StrCat(group, "message ", key.execution - kMessages, " of ",
                      ToString(PathOf(key.instance)));
}

std::string ToString(const MessagePath& path) {
  return absl::StrCat(
      path.from == path.to ? "any member" : absl::StrCat("rank ", path.from),
      " to rank ", path.to, ", tag ", path.tag);
}

std::string ToString(const BufKey& key) {
  if (IsMessage(key.exec)) return ToString(key.exec);
  return absl::StrCat(ToString(key.exec), ", rank ", key.from, " to rank ",
                      key.to, ", tag ", key.tag);
}

}  // namespace tutti
