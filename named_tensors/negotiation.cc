#include "named_tensors/negotiation.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "named_tensors/tensor_request.h"

namespace tutti {
namespace {

// Longer names are sent each time: they are rare, and remembering them costs
// memory.
constexpr size_t kMaxKnownNameBytes = 4096;

// Cap on the counted bytes of a request. Sums of it do not overflow.
constexpr int64_t kManyBytes = int64_t{1} << 40;

int64_t BytesOf(const TensorRequest& request) {
  const auto size = static_cast<int64_t>(SizeOf(request.dtype));
  return std::min(request.shape.num_elements(), kManyBytes / size) * size;
}

// True if all ranks request the same reduction, which needs no check.
bool IsOneReduction(const RankRequests& requests) {
  return requests.all_equal() &&
         requests.first().type == CollectiveType::kAllReduce;
}

absl::Status HasJoined(int rank) {
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", rank, " has joined, and not all ranks have yet"));
}

// Text for tensors that miss the same ranks. `tensors` starts with the oldest.
std::string LineOf(absl::Span<const StalledTensor* const> tensors) {
  const StalledTensor& oldest = *tensors.front();
  const bool is_one = tensors.size() == 1;
  const std::string names = ShortList(
      tensors.size(), [&](size_t i) { return Quoted(tensors[i]->name); });
  return absl::StrCat(
      is_one ? "tensor " : absl::StrCat(tensors.size(), " tensors, "), names,
      is_one ? " has waited for " : ", have waited for up to ",
      absl::FormatDuration(absl::Trunc(oldest.waited, absl::Milliseconds(1))),
      ": ranks that have asked for ",
      is_one ? "it: " : "them: ", RanksText(oldest.present),
      "; ranks that have not: ", RanksText(oldest.missing));
}

}  // namespace

Negotiation::Negotiation(Options options)
    : options_(std::move(options)),
      loads_(options_.num_ranks),
      joined_(options_.num_ranks) {}

// --- Requests ----------------------------------------------------------------

absl::Status Negotiation::CheckMayAdd(int rank, const std::string& name) const {
  if (joined_[rank]) return HasJoined(NumberOf(rank));
  const auto found = waiting_.find(name);
  if ((found != waiting_.end() && found->second->is_present[rank]) ||
      ready_names_.contains(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("tensor ", Quoted(name), ": rank ", NumberOf(rank),
                     " has asked for it, and it has not run yet"));
  }
  const Load& load = loads_[rank];
  if (load.num_requests < kMaxPendingRequests &&
      load.name_bytes + name.size() <= kMaxPendingNameBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "rank ", NumberOf(rank), " has ", load.num_requests,
      " requests that are not decided, with names of ", load.name_bytes,
      " bytes; at most ", kMaxPendingRequests, " and ", kMaxPendingNameBytes));
}

absl::Status Negotiation::Add(int rank, uint64_t number, TensorRequest request,
                              absl::Time now) {
  RETURN_IF_ERROR(CheckMayAdd(rank, request.name));
  loads_[rank].num_requests += 1;
  loads_[rank].name_bytes += request.name.size();
  const int64_t bytes = BytesOf(request);
  TensorPtr& tensor = waiting_[request.name];
  if (tensor == nullptr) {
    tensor = std::make_unique<Tensor>(
        Tensor{.requests = RankRequests(std::move(request)),
               .place = ++last_place_,
               .since = now,
               .bytes = bytes,
               .is_present = std::vector<bool>(options_.num_ranks)});
    order_[tensor->place] = tensor.get();
  } else {
    tensor->requests.Add(rank, std::move(request));
  }
  if (rank == 0) tensor->bytes = bytes;
  tensor->is_present[rank] = true;
  tensor->requested.push_back({rank, number});
  MakeReadyIfComplete(*tensor);
  return absl::OkStatus();
}

absl::Status Negotiation::Join(int rank) {
  if (joined_[rank]) return HasJoined(NumberOf(rank));
  joined_[rank] = true;
  ++num_joined_;
  last_joined_ = rank;
  std::vector<Tensor*> waiting;
  for (const auto& [place, tensor] : order_) waiting.push_back(tensor);
  for (Tensor* const tensor : waiting) MakeReadyIfComplete(*tensor);
  return absl::OkStatus();
}

// Ranks that have joined and did not request the tensor before.
std::vector<int> Negotiation::AbsentFrom(const Tensor& tensor) const {
  std::vector<int> absent;
  for (int rank = 0; num_joined_ > 0 && rank < options_.num_ranks; ++rank) {
    if (joined_[rank] && !tensor.is_present[rank]) absent.push_back(rank);
  }
  return absent;
}

// Adds no rows of the absent ranks to a gather. They agree to all else.
void Negotiation::MakeReadyIfComplete(Tensor& tensor) {
  const size_t num_requests = tensor.requested.size();
  const auto num_joined = static_cast<size_t>(num_joined_);
  if (num_requests + num_joined < loads_.size()) return;
  tensor.absent = AbsentFrom(tensor);
  if (num_requests + tensor.absent.size() < loads_.size()) return;
  const TensorRequest& first = tensor.requests.first();
  if (InputIsOwnBlock(first.type) && first.shape.num_dims() > 0) {
    TensorRequest none = first;
    none.shape = *none.shape.WithFirstDim(0);
    for (const int rank : tensor.absent) tensor.requests.Add(rank, none);
  }
  ready_bytes_ += tensor.bytes;
  ready_names_.insert(tensor.name());
  ready_.push_back(Take(tensor));
}

absl::Status Negotiation::AddKnown(int rank, uint64_t number, size_t slot,
                                   absl::Time now) {
  if (slot >= slots_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", NumberOf(rank), " asked for the tensor of slot ",
                     slot, "; there are ", slots_.size()));
  }
  TensorRequest request = slots_[slot].Of(rank);
  request.name = slots_[slot].name();
  return Add(rank, number, std::move(request), now);
}

// Takes the tensor out of the waiting ones.
Negotiation::TensorPtr Negotiation::Take(Tensor& tensor) {
  order_.erase(tensor.place);
  const auto found = waiting_.find(tensor.name());
  TensorPtr taken = std::move(found->second);
  waiting_.erase(found);
  return taken;
}

void Negotiation::Forget(const Tensor& tensor) {
  for (const Requested& requested : tensor.requested) {
    loads_[requested.rank].num_requests -= 1;
    loads_[requested.rank].name_bytes -= tensor.name().size();
  }
}

// --- Decisions ---------------------------------------------------------------

// Forms groups that each run as one. A group takes the place of its first
// tensor.
void Negotiation::GroupReady() {
  struct Open {
    size_t group = 0;
    int64_t bytes = 0;
  };
  using Key = std::tuple<DType, std::string, std::string, std::vector<int>>;
  std::map<Key, Open> open;
  for (TensorPtr& tensor : ready_) {
    const TensorRequest& request = tensor->requests.first();
    const int64_t bytes = tensor->bytes;
    const bool fits = IsOneReduction(tensor->requests) &&
                      bytes < options_.fusion_bytes &&
                      (tensor->absent.empty() || BuiltInOpsOf(request).ok());
    if (!fits) {
      groups_.emplace_back().push_back(std::move(tensor));
      continue;
    }
    const auto [found, is_new] = open.try_emplace(
        {request.dtype, request.merge_op, request.final_op, tensor->absent});
    Open& present = found->second;
    if (is_new || present.bytes + bytes > options_.fusion_bytes) {
      present = {groups_.size(), 0};
      groups_.emplace_back();
    }
    present.bytes += bytes;
    groups_[present.group].push_back(std::move(tensor));
  }
  ready_.clear();
}

std::vector<Negotiation::Decision> Negotiation::TakeDecisions(
    int64_t max_new_instances) {
  std::vector<Decision> decisions;
  int64_t num_new = 0;
  while (num_new < max_new_instances) {
    if (groups_.empty()) GroupReady();
    if (groups_.empty()) break;
    const std::vector<TensorPtr> group = std::move(groups_.front());
    groups_.pop_front();
    for (const TensorPtr& tensor : group) {
      ready_bytes_ -= tensor->bytes;
      ready_names_.erase(tensor->name());
      Forget(*tensor);
    }
    decisions.push_back(Decide(group));
    if (decisions.back().begins_instance) ++num_new;
  }
  if (ready_names_.empty() && num_joined_ == options_.num_ranks) {
    decisions.push_back(EndJoin());
  }
  return decisions;
}

// Comes after all decisions that joined ranks take part in: the ranks may then
// request the names again.
Negotiation::Decision Negotiation::EndJoin() {
  Decision made;
  made.requests.resize(options_.num_ranks);
  made.last_joined = last_joined_;
  joined_.assign(joined_.size(), false);
  num_joined_ = 0;
  return made;
}

void Negotiation::AddRequests(const Tensor& tensor, Decision& made) const {
  made.requests.resize(options_.num_ranks);
  for (const Requested& requested : tensor.requested) {
    made.requests[requested.rank].push_back(requested.number);
  }
}

Negotiation::Decision Negotiation::Decide(
    const std::vector<TensorPtr>& tensors) {
  Decision made;
  for (const TensorPtr& tensor : tensors) AddRequests(*tensor, made);
  const Tensor& first = *tensors.front();
  const bool is_reduction = IsOneReduction(first.requests);
  if (is_reduction && first.absent.empty()) {
    DecideReduction(tensors, made);
  } else {
    const auto by_rank = first.requests.OfAll(options_.num_ranks);
    made.status = CheckAgree(first, by_rank);
    if (!made.status.ok()) return made;
    is_reduction ? DecideReduction(tensors, made) : DecideOne(by_rank, made);
    if (!first.absent.empty()) AddStandIn(tensors, made);
  }
  for (const TensorPtr& tensor : tensors) {
    made.slots.push_back(Remember(*tensor));
  }
  return made;
}

absl::Status Negotiation::CheckAgree(
    const Tensor& tensor, absl::Span<const TensorRequest> by_rank) const {
  if (tensor.absent.empty()) {
    return CheckRequestsAgree(by_rank, {.present = options_.tasks});
  }
  NumberedRanks ranks;
  std::vector<TensorRequest> requests;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (!tensor.is_present[rank]) {
      ranks.joined.push_back(NumberOf(rank));
      continue;
    }
    ranks.present.push_back(NumberOf(rank));
    requests.push_back(by_rank[rank]);
  }
  requests.front().name = tensor.name();
  return CheckRequestsAgree(requests, std::move(ranks));
}

// Elements of reductions that run together.
int64_t Negotiation::ElementsOf(absl::Span<const TensorPtr> tensors) {
  int64_t num_elements = 0;
  for (const TensorPtr& tensor : tensors) {
    num_elements += tensor->requests.first().shape.num_elements();
  }
  return num_elements;
}

void Negotiation::AddStandIn(absl::Span<const TensorPtr> tensors,
                             Decision& made) const {
  made.stand_in = tensors.front()->requests.Of(tensors.front()->absent.front());
  if (made.stand_in->type == CollectiveType::kAllReduce) {
    made.stand_in->shape = TensorShape::Vector(ElementsOf(tensors));
  }
}

// Returns the tensor's slot plus one; 0 if no slot is left. A slot keeps what
// absent ranks requested last, so it cannot take the other ranks' requests.
uint32_t Negotiation::Remember(Tensor& tensor) {
  if (!tensor.absent.empty()) return 0;
  const auto found = slot_of_name_.find(tensor.name());
  if (found != slot_of_name_.end()) {
    slots_[found->second] = std::move(tensor.requests);
    return found->second + 1;
  }
  if (slots_.size() >= options_.max_slots ||
      tensor.name().size() > kMaxKnownNameBytes) {
    return 0;
  }
  slot_of_name_[tensor.name()] = static_cast<uint32_t>(slots_.size());
  slots_.push_back(std::move(tensor.requests));
  return static_cast<uint32_t>(slots_.size());
}

// --- Ranks that are missing --------------------------------------------------

StalledTensor Negotiation::Describe(const Tensor& tensor,
                                    absl::Time now) const {
  StalledTensor stalled{.name = tensor.name(), .waited = now - tensor.since};
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (tensor.is_present[rank]) {
      stalled.present.push_back(NumberOf(rank));
    } else if (!joined_[rank]) {
      stalled.missing.push_back(NumberOf(rank));
    }
  }
  return stalled;
}

std::vector<StalledTensor> Negotiation::TakeStalled(absl::Time now,
                                                    absl::Duration after) {
  std::vector<StalledTensor> stalled;
  for (auto it = order_.upper_bound(last_reported_); it != order_.end(); ++it) {
    if (now - it->second->since < after) break;
    stalled.push_back(Describe(*it->second, now));
    last_reported_ = it->first;
  }
  return stalled;
}

std::vector<Negotiation::Decision> Negotiation::TakeExpired(
    absl::Time now, absl::Duration limit) {
  std::vector<Decision> decisions;
  while (!order_.empty() && now - order_.begin()->second->since >= limit) {
    const TensorPtr tensor = Take(*order_.begin()->second);
    Decision& made = decisions.emplace_back();
    AddRequests(*tensor, made);
    made.status =
        absl::DeadlineExceededError(Describe(*tensor, now).ToString());
    Forget(*tensor);
  }
  return decisions;
}

absl::Time Negotiation::OldestNotReported() const {
  const auto found = order_.upper_bound(last_reported_);
  return found == order_.end() ? absl::InfiniteFuture() : found->second->since;
}

absl::Time Negotiation::Oldest() const {
  return order_.empty() ? absl::InfiniteFuture()
                        : order_.begin()->second->since;
}

std::string StalledTensor::ToString() const {
  const StalledTensor* const only = this;
  return LineOf({&only, 1});
}

std::vector<std::string> LinesOf(absl::Span<const StalledTensor> tensors) {
  using Ranks = std::pair<std::vector<int>, std::vector<int>>;
  std::map<Ranks, size_t> group_of;
  std::vector<std::vector<const StalledTensor*>> groups;
  for (const StalledTensor& tensor : tensors) {
    const auto [found, is_new] = group_of.try_emplace(
        Ranks(tensor.present, tensor.missing), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(&tensor);
  }
  std::vector<std::string> lines;
  for (const auto& group : groups) lines.push_back(LineOf(group));
  return lines;
}

}  // namespace tutti
