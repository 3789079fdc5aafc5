#include "named_tensors/pending_tensors.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "named_tensors/coordinator_codec.h"

namespace tutti {

absl::Status PendingTensors::Add(PendingTensorPtr pending) {
  const TensorRequest& request = pending->request;
  if (names_.contains(request.name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("tensor ", Quoted(request.name), ": rank ", rank_,
                     " has asked for it already, and it has not run yet"));
  }
  if (names_.size() >= kMaxPendingRequests ||
      name_bytes_ + request.name.size() > kMaxPendingNameBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", rank_, " waits for ", names_.size(),
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

absl::StatusOr<std::vector<PendingTensorPtr>> PendingTensors::TakeDecided(
    const proto::Decision& decision) {
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
  RETURN_IF_ERROR(CheckDecision(decision, requests, rank_, num_ranks_));
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
