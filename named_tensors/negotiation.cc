#include "named_tensors/negotiation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "named_tensors/tensor_request.h"
#include "tutti/named_tensors.h"

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

// Rounds up to one of a few lengths per power of two: varying lengths then
// share few instances. Adds at most an eighth; returns 1 for 0.
int64_t FusedLength(int64_t num_elements) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  num_elements = std::max<int64_t>(num_elements, 1);
  int64_t step = 1;
  while (step <= num_elements / 16) step *= 2;
  const int64_t missing = (step - num_elements % step) % step;
  return num_elements + std::min(missing, kMost - num_elements);
}

// True if all ranks request the same reduction, which needs no check.
bool IsOneReduction(const RankRequests& requests) {
  return requests.all_equal() &&
         requests.first().type == CollectiveType::kAllReduce;
}

// Key of the ops. The length keeps the names apart.
std::string OpsOf(const TensorRequest& request) {
  return absl::StrCat(request.merge_op.size(), request.merge_op, " ",
                      request.final_op);
}

// Number of elements of that many rows of the request.
int64_t RowElements(const TensorRequest& request, int64_t num_rows) {
  return request.shape.WithFirstDim(num_rows)->num_elements();
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
    : options_(options), loads_(options.num_ranks) {}

// --- Requests ----------------------------------------------------------------

absl::Status Negotiation::CheckMayAdd(int rank, const std::string& name) const {
  const auto found = waiting_.find(name);
  if ((found != waiting_.end() && found->second->is_present[rank]) ||
      ready_names_.contains(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("tensor ", Quoted(name), ": rank ", rank,
                     " has asked for it, and it has not run yet"));
  }
  const Load& load = loads_[rank];
  if (load.num_requests < kMaxPendingRequests &&
      load.name_bytes + name.size() <= kMaxPendingNameBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "rank ", rank, " has ", load.num_requests,
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
               .is_present = std::vector<bool>(options_.num_ranks)});
    order_[tensor->place] = tensor.get();
  } else {
    tensor->requests.Add(rank, std::move(request));
  }
  if (rank == 0) tensor->bytes = bytes;
  tensor->is_present[rank] = true;
  tensor->requested.push_back({rank, number});
  if (tensor->requested.size() < loads_.size()) return absl::OkStatus();
  ready_bytes_ += tensor->bytes;
  ready_names_.insert(tensor->name());
  ready_.push_back(Take(*tensor));
  return absl::OkStatus();
}

absl::Status Negotiation::AddKnown(int rank, uint64_t number, size_t slot,
                                   absl::Time now) {
  if (slot >= slots_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " asked for the tensor of slot ", slot,
                     "; there are ", slots_.size()));
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
  std::map<std::tuple<DType, std::string, std::string>, Open> open;
  for (TensorPtr& tensor : ready_) {
    const TensorRequest& request = tensor->requests.first();
    const int64_t bytes = tensor->bytes;
    const bool fits =
        IsOneReduction(tensor->requests) && bytes < options_.fusion_bytes;
    if (!fits) {
      groups_.emplace_back().push_back(std::move(tensor));
      continue;
    }
    const auto [found, is_new] =
        open.try_emplace({request.dtype, request.merge_op, request.final_op});
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
  return decisions;
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
  const RankRequests& first = tensors.front()->requests;
  if (IsOneReduction(first)) {
    DecideReduction(tensors, made);
  } else {
    const auto by_rank = first.OfAll(options_.num_ranks);
    made.status = CheckRequestsAgree(by_rank);
    if (!made.status.ok()) return made;
    DecideOne(by_rank, made);
  }
  for (const TensorPtr& tensor : tensors) {
    made.slots.push_back(Remember(*tensor));
  }
  return made;
}

void Negotiation::DecideReduction(const std::vector<TensorPtr>& tensors,
                                  Decision& made) {
  int64_t num_elements = 0;
  for (const TensorPtr& tensor : tensors) {
    num_elements += tensor->requests.first().shape.num_elements();
  }
  const TensorRequest& first = tensors.front()->requests.first();
  const auto signature = [&first](int64_t length) {
    return absl::StrCat("reduce ", Name(first.dtype), " ", length, " ",
                        OpsOf(first));
  };
  if (tensors.size() == 1 &&
      SetExactInstance(signature(num_elements), /*num_entries=*/1, made)) {
    return;
  }
  made.fused_elements = FusedLength(num_elements);
  SetInstance(signature(made.fused_elements), made);
}

// Decides a gather. If the rows differ, each call lists them: one instance then
// serves all gathers of about one size, and the size selects the algorithm.
// Without room for another instance, the gather runs as if all ranks had
// equally many rows. Each rank's rows then lie at the start of its part.
void Negotiation::DecideGather(absl::Span<const TensorRequest> by_rank,
                               Decision& made) {
  const TensorRequest& first = by_rank.front();
  bool is_even = true;
  int64_t most_elements = 0;
  double num_elements = 0;
  for (const TensorRequest& request : by_rank) {
    made.rows.push_back(request.shape.dim(0));
    is_even &= made.rows.back() == made.rows.front();
    most_elements = std::max(most_elements, request.shape.num_elements());
    num_elements += static_cast<double>(request.shape.num_elements());
  }
  const std::string size =
      is_even             ? absl::StrCat("rows ", made.rows.front())
      : num_elements == 0 ? "nothing"
                          : absl::StrCat("about 2^", std::ilogb(num_elements));
  const size_t num_entries = is_even ? 1 : 1 + made.rows.size();
  const std::string signature = absl::StrCat(
      "gather ", Name(first.dtype), " ",
      absl::StrJoin(first.shape.dims().subspan(1), ","), " / ", size);
  if (SetExactInstance(signature, num_entries, made)) return;
  SetPartsInstance(absl::StrCat("gather parts ", Name(first.dtype)),
                   most_elements, made);
}

void Negotiation::DecideBroadcast(const TensorRequest& first, Decision& made) {
  const int64_t num_elements = first.shape.num_elements();
  const std::string what =
      absl::StrCat("broadcast ", first.root, " ", Name(first.dtype));
  if (SetExactInstance(absl::StrCat(what, " ", num_elements),
                       /*num_entries=*/1, made)) {
    return;
  }
  SetPartsInstance(what + " part", num_elements, made);
}

// Decides a reduce-scatter. If the blocks differ in size, each call lists them.
void Negotiation::DecideReduceScatter(const TensorRequest& first,
                                      Decision& made) {
  const auto rows = BalancedRows(first.shape.dim(0), options_.num_ranks);
  const bool is_even = rows.back() == rows.front();
  const std::string what =
      absl::StrCat("reduce_scatter ", OpsOf(first), " ", Name(first.dtype));
  if (SetExactInstance(absl::StrCat(what, is_even ? " " : " uneven ",
                                    first.shape.num_elements()),
                       is_even ? 1 : 1 + rows.size(), made)) {
    return;
  }
  SetPartsInstance(what + " parts", RowElements(first, rows.front()), made);
}

// Decides an all-to-all. If the numbers of rows differ, each call lists them:
// one instance serves all sizes.
void Negotiation::DecideAllToAll(absl::Span<const TensorRequest> by_rank,
                                 Decision& made) {
  const TensorRequest& first = by_rank.front();
  const int64_t rows = RowsToRanks(first, options_.num_ranks).front();
  bool is_even = true;
  std::vector<std::vector<int64_t>> received_rows(by_rank.size());
  for (const TensorRequest& request : by_rank) {
    const auto send_rows = RowsToRanks(request, options_.num_ranks);
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      received_rows[rank].push_back(send_rows[rank]);
      is_even &= send_rows[rank] == rows;
    }
  }
  const std::string what = absl::StrCat("all_to_all ", Name(first.dtype));
  if (is_even &&
      SetExactInstance(
          absl::StrCat(what, " ", absl::StrJoin(first.shape.dims(), ",")),
          /*num_entries=*/1, made)) {
    return;
  }
  made.received_rows = std::move(received_rows);
  SetInstance(what + " by rows", made);
}

// Decides the collective of one name whose requests agree.
void Negotiation::DecideOne(absl::Span<const TensorRequest> by_rank,
                            Decision& made) {
  const TensorRequest& first = by_rank.front();
  switch (first.type) {
    case CollectiveType::kBroadcast:
      return DecideBroadcast(first, made);
    case CollectiveType::kReduceScatter:
      return DecideReduceScatter(first, made);
    case CollectiveType::kAllToAll:
      return DecideAllToAll(by_rank, made);
    default:
      return DecideGather(by_rank, made);
  }
}

// Sets an instance whose parts have few lengths.
void Negotiation::SetPartsInstance(const std::string& what,
                                   int64_t part_elements, Decision& made) {
  made.fused_elements = FusedLength(part_elements);
  SetInstance(absl::StrCat(what, " ", made.fused_elements), made);
}

// Returns false for an unknown instance for which there is no room.
bool Negotiation::SetExactInstance(const std::string& signature,
                                   size_t num_entries, Decision& made) {
  if (!instance_keys_.contains(signature)) {
    if (num_exact_entries_ + num_entries > options_.max_exact_entries) {
      return false;
    }
    num_exact_entries_ += num_entries;
  }
  SetInstance(signature, made);
  return true;
}

void Negotiation::SetInstance(const std::string& signature, Decision& made) {
  const auto [found, is_new] =
      instance_keys_.try_emplace(signature, instances_.size() + 1);
  if (is_new) instances_.emplace_back();
  Instance& instance = instances_[found->second - 1];
  made.instance = found->second;
  made.execution = instance.num_executions++;
  made.begins_instance = !instance.is_settled && instance.num_under_way == 0;
  if (made.begins_instance) ++num_unsettled_;
  ++instance.num_under_way;
}

void Negotiation::OnRunEnded(InstanceKey key, bool went_well) {
  Instance& instance = instances_[key - 1];
  --instance.num_under_way;
  if (instance.is_settled) return;
  instance.is_settled = went_well;
  if (went_well || instance.num_under_way == 0) --num_unsettled_;
}

// Returns the tensor's slot plus one; 0 if no slot is left.
uint32_t Negotiation::Remember(Tensor& tensor) {
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
    (tensor.is_present[rank] ? stalled.present : stalled.missing)
        .push_back(rank);
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
