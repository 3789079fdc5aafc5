#include "named_tensors/request_batches.h"

#include <map>
#include <utility>

#include "named_tensors/coordinator_codec.h"

namespace tutti {
namespace {

// Bound on the requests in a message. With the slots it stays well below the 64
// KiB of a control message.
constexpr size_t kMaxBatchBytes = size_t{40} << 10;

// Upper bounds on message bytes that are not counted exactly.
constexpr size_t kOverheadBytes = 64;
constexpr size_t kMaxDimBytes = 10;

// Upper bound on the bytes of a request without its name.
size_t MessageBytes(const TensorRequest& request) {
  return request.merge_op.size() + kOverheadBytes +
         static_cast<size_t>(request.shape.num_dims()) * kMaxDimBytes;
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
  batch.message.set_number(++last_message_);
  batch.message.set_first_request(next_request_);
  next_request_ += batch.ids.size();
  return batch;
}

}  // namespace tutti
