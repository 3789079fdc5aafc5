#include "named_tensors/pending_tensors.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "named_tensors/coordinator_codec.h"
#include "named_tensors/tensor_preparation.h"

namespace tutti {
namespace {

// Bound on the requests in a message; a request without its name is smaller.
// With the slots it stays well below the 64 KiB of a control message.
constexpr size_t kMaxBatchBytes = size_t{40} << 10;

// Upper bounds on message bytes that are not counted exactly.
constexpr size_t kOverheadBytes = 64;
constexpr size_t kMaxNumberBytes = 9;  // Not negative.

// Upper bound on the bytes of a request without its name.
size_t MessageBytes(const TensorRequest& request) {
  const size_t num_numbers =
      static_cast<size_t>(request.shape.num_dims()) + request.send_rows.size();
  return request.merge_op.size() + request.final_op.size() + kOverheadBytes +
         num_numbers * kMaxNumberBytes;
}

}  // namespace

void RequestBatches::Add(uint64_t id, TensorRequest request,
                         std::optional<uint32_t> slot) {
  waiting_.push_back({id, std::move(request), slot});
}

RequestBatches::Batch RequestBatches::TakeNext() {
  Batch batch;
  std::map<uint32_t, uint64_t> known;  // Slot to id.
  size_t num_bytes = 0;
  while (!waiting_.empty()) {
    Entry& entry = waiting_.front();
    if (entry.slot.has_value()) {
      known[*entry.slot] = entry.id;
      waiting_.pop_front();
      continue;
    }
    std::string& name = entry.request.name;
    const size_t bytes = MessageBytes(entry.request) + name.size();
    if (num_bytes + bytes > kMaxBatchBytes) {
      if (num_bytes > 0) break;
      const size_t head_bytes = kMaxBatchBytes / 2;
      batch.message.set_name_head(name.substr(0, head_bytes));
      name.erase(0, head_bytes);
      break;
    }
    num_bytes += bytes;
    EncodeTensorRequest(entry.request, batch.message.add_requests());
    batch.ids.push_back(entry.id);
    waiting_.pop_front();
  }
  std::vector<uint32_t> slots;
  for (const auto& [slot, id] : known) {
    slots.push_back(slot);
    batch.ids.push_back(id);
  }
  batch.message.set_slots(EncodeSlots(slots));
  if (waiting_.empty()) batch.message.set_joins(std::exchange(joins_, false));
  batch.message.set_number(++last_message_);
  batch.message.set_first_request(next_request_);
  next_request_ += batch.ids.size();
  return batch;
}

absl::Status PendingTensors::CheckMayAdd() const {
  if (!has_joined_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", place_.task, " has joined, and not all ranks have yet"));
}

absl::Status PendingTensors::Join() {
  RETURN_IF_ERROR(CheckMayAdd());
  has_joined_ = true;
  batches_.AddJoin();
  return absl::OkStatus();
}

absl::Status PendingTensors::Add(PendingTensorPtr pending) {
  RETURN_IF_ERROR(CheckMayAdd());
  const TensorRequest& request = pending->request;
  if (names_.contains(request.name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("tensor ", Quoted(request.name), ": rank ", place_.task,
                     " has asked for it already, and it has not run yet"));
  }
  if (names_.size() >= kMaxPendingRequests ||
      name_bytes_ + request.name.size() > kMaxPendingNameBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", place_.task, " waits for ", names_.size(),
                     " tensors with names of ", name_bytes_, " bytes; at most ",
                     kMaxPendingRequests, " and ", kMaxPendingNameBytes));
  }
  names_.insert(request.name);
  name_bytes_ += request.name.size();
  const auto known = known_.find(request.name);
  const bool is_known =
      known != known_.end() && known->second.request == request;
  batches_.Add(
      ++last_id_, request,
      is_known ? std::make_optional(known->second.slot) : std::nullopt);
  undecided_[last_id_] = std::move(pending);
  return absl::OkStatus();
}

proto::SubmitTensors PendingTensors::TakeMessage() {
  RequestBatches::Batch batch = batches_.TakeNext();
  uint64_t number = batch.message.first_request();
  for (const uint64_t id : batch.ids) id_of_request_[number++] = id;
  return std::move(batch.message);
}

absl::StatusOr<std::vector<PendingTensorPtr>> PendingTensors::TakeForJoined(
    const proto::Decision& decision) {
  const int last = decision.last_joined();
  if (!has_joined_ || last < 0 || last > place_.num_ranks ||
      decision.requests_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decision.last_joined is ", last, " and stand_in ",
        decision.has_stand_in() ? "" : "not ", "set, with ",
        decision.requests_size(), " requests, for rank ", place_.rank, " of ",
        place_.num_ranks, ", which has ", has_joined_ ? "" : "not ", "joined"));
  }
  if (last > 0) {
    has_joined_ = false;
    return std::vector<PendingTensorPtr>();
  }
  ASSIGN_OR_RETURN(auto pending, MakeStandIn(decision.stand_in(), place_.task));
  const TensorRequest* const request = &pending->request;
  RETURN_IF_ERROR(
      CheckDecision(decision, {&request, 1}, place_.rank, place_.num_ranks));
  return std::vector<PendingTensorPtr>{std::move(pending)};
}

absl::StatusOr<std::vector<PendingTensorPtr>> PendingTensors::TakeDecided(
    const proto::Decision& decision) {
  if (decision.has_stand_in() || decision.last_joined() != 0) {
    return TakeForJoined(decision);
  }
  std::vector<PendingTensorPtr> tensors;
  std::vector<const TensorRequest*> requests;
  absl::flat_hash_set<uint64_t> numbers;
  for (const uint64_t number : decision.requests()) {
    const auto id = id_of_request_.find(number);
    if (id == id_of_request_.end() || !numbers.insert(number).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("decision.requests has ", number,
                       ", which is none that waits, or twice"));
    }
    tensors.push_back(undecided_[id->second]);
    requests.push_back(&tensors.back()->request);
  }
  RETURN_IF_ERROR(
      CheckDecision(decision, requests, place_.rank, place_.num_ranks));
  for (const uint64_t number : decision.requests()) {
    const auto id = id_of_request_.find(number);
    undecided_.erase(id->second);
    id_of_request_.erase(id);
  }
  if (!decision.has_error()) Remember(decision, tensors);
  return tensors;
}

void PendingTensors::Remember(const proto::Decision& decision,
                              const std::vector<PendingTensorPtr>& tensors) {
  for (int i = 0; i < decision.slots_size(); ++i) {
    const TensorRequest& request = tensors[i]->request;
    const uint32_t slot = decision.slots(i);
    if (slot == 0 || slot > kMaxTensorSlots) {
      known_.erase(request.name);
    } else {
      known_[request.name] = {slot - 1, request};
    }
  }
}

void PendingTensors::Leave(const std::vector<PendingTensorPtr>& tensors) {
  for (const PendingTensorPtr& pending : tensors) {
    if (names_.erase(pending->request.name) == 0) continue;
    name_bytes_ -= pending->request.name.size();
  }
}

std::vector<PendingTensorPtr> PendingTensors::TakeUndecided() {
  std::vector<PendingTensorPtr> tensors;
  for (auto& [id, pending] : undecided_) tensors.push_back(std::move(pending));
  undecided_.clear();
  id_of_request_.clear();
  Leave(tensors);
  return tensors;
}

}  // namespace tutti
