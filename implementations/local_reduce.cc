#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "framework/collective_executor.h"
#include "framework/collective_implementation.h"
#include "framework/mutex.h"
#include "framework/reduction.h"
#include "framework/registry.h"
#include "framework/run_in_turn.h"
#include "implementations/cost.h"
#include "implementations/local_meeting.h"

namespace tutti {
namespace {

// All members are in this process, so the last one to arrive has all inputs,
// and the whole reduction is one pass over memory, line by line:
//
//   inputs    a  b  c  d       each is read once
//              | |  | |        in rank order
//            registers         (((a + b) + c) + d), final op
//              | |  | |        to all
//   outputs   w  x  y  z       each is written once
//
// For n members of S bytes that is 2 n S bytes in all, the least there is, and
// no messages. float16 and bfloat16 are rounded once, after the final op. Large
// tensors are cut into slices, which the work queue runs side by side; small
// ones are reduced on the thread of the last member.
//
// Ops of the caller, and averages of integers, take one more step: each tile of
// a few thousand bytes is reduced in the first-level cache, pair by pair.

// What follows counts the inputs and outputs of all members together. Measured
// on an AMD EPYC with 2 cores and 32 MiB of last-level cache, November 2026.

// Up to here one thread is done sooner than the work queue wakes another.
constexpr int64_t kInlineBytes = int64_t{2} << 20;

constexpr int64_t kMinSliceBytes = int64_t{1} << 20;
constexpr int64_t kMostSlices = 64;

// From here on, outputs would not stay in the caches.
constexpr int64_t kStreamBytes = int64_t{16} << 20;

constexpr int64_t kTileBytes = 8192;  // Of one tensor.

// A slice begins at a cache line, and so at an element.
constexpr int64_t kLineBytes = 64;

// One execution, once all members have arrived.
class Reduction {
 public:
  explicit Reduction(std::vector<Attendee> members);

  // Reduces and ends the members' calls: here, or on the work queue.
  static void Run(std::vector<Attendee> members);

 private:
  // Bytes [begin, end) of each tensor.
  struct Range {
    int64_t begin;
    int64_t end;
  };

  bool FitsOnePass() const;
  int64_t all_bytes() const;
  int64_t slice_bytes() const;
  void RunSlices(const std::shared_ptr<Reduction>& self);
  absl::Status Reduce(Range range) const;
  void ReduceInOnePass(Range range) const;
  absl::Status ReduceInTiles(Range range) const;
  absl::Status ReduceTile(Range range, uint8_t* tile) const;
  static void EndOne(const std::shared_ptr<Reduction>& self,
                     absl::Status status);

  std::vector<Attendee> members_;
  const CollInstanceParams& instance_;
  const int64_t element_bytes_;
  const int64_t num_bytes_;  // Of one tensor.
  const int group_size_;

  std::vector<const uint8_t*> inputs_;
  std::vector<uint8_t*> outputs_;
  std::vector<uint8_t*> streamed_;

  std::atomic<int64_t> num_left_{0};  // Slices.
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

Reduction::Reduction(std::vector<Attendee> members)
    : members_(std::move(members)),
      instance_(*members_[0].context->params->instance),
      element_bytes_(static_cast<int64_t>(SizeOf(instance_.dtype))),
      num_bytes_(instance_.shape.num_elements() * element_bytes_),
      group_size_(static_cast<int>(members_.size())) {
  const bool is_small = 2 * num_bytes_ * group_size_ < kStreamBytes;
  for (const Attendee& member : members_) {
    const Tensor& input = member.context->input;
    const Tensor& output = member.context->output;
    inputs_.push_back(reinterpret_cast<const uint8_t*>(input.data()));
    if (!output.is_set()) continue;
    // The tensor is the context's; its bytes are this execution's to write.
    auto* const bytes =
        const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(output.data()));
    // In place, the line has just been read and is in the caches.
    const bool is_near = is_small || output.data() == input.data();
    (is_near ? outputs_ : streamed_).push_back(bytes);
  }
}

void Reduction::Run(std::vector<Attendee> members) {
  const auto reduction = std::make_shared<Reduction>(std::move(members));
  if (reduction->all_bytes() > kInlineBytes) {
    return reduction->RunSlices(reduction);
  }
  reduction->num_left_ = 1;
  EndOne(reduction, reduction->Reduce({0, reduction->num_bytes_}));
}

int64_t Reduction::all_bytes() const {
  return num_bytes_ * static_cast<int64_t>(inputs_.size() + outputs_.size() +
                                           streamed_.size());
}

int64_t Reduction::slice_bytes() const {
  const int64_t slices =
      std::clamp<int64_t>(all_bytes() / kMinSliceBytes, 1, kMostSlices);
  const int64_t bytes = (num_bytes_ + slices - 1) / slices;
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

void Reduction::RunSlices(const std::shared_ptr<Reduction>& self) {
  const int64_t size = slice_bytes();
  WorkQueue& queue = *members_[0].context->executor->environment().queue;
  num_left_ = (num_bytes_ + size - 1) / size;
  for (int64_t begin = 0; begin < num_bytes_; begin += size) {
    const Range range = {begin, std::min(begin + size, num_bytes_)};
    queue.Schedule([self, range] { EndOne(self, self->Reduce(range)); });
  }
}

bool Reduction::FitsOnePass() const {
  return group_size_ > 1 && !instance_.merge_op.is_custom() &&
         !instance_.final_op.is_custom() &&
         (instance_.final_op.is_identity() || IsFloating(instance_.dtype));
}

absl::Status Reduction::Reduce(Range range) const {
  const Cancellation& cancellation =
      members_[0].context->execution->cancellation;
  if (cancellation.cancelled()) return cancellation.status();
  if (!FitsOnePass()) return ReduceInTiles(range);
  ReduceInOnePass(range);
  return absl::OkStatus();
}

// The same position in each buffer.
template <typename Pointer>
absl::InlinedVector<Pointer, 16> At(const std::vector<Pointer>& buffers,
                                    int64_t offset) {
  absl::InlinedVector<Pointer, 16> moved(buffers.begin(), buffers.end());
  for (Pointer& pointer : moved) pointer += offset;
  return moved;
}

void Reduction::ReduceInOnePass(Range range) const {
  ReduceMany({
      .kind = instance_.merge_op.kind(),
      .dtype = instance_.dtype,
      .inputs = At(inputs_, range.begin),
      .outputs = At(outputs_, range.begin),
      .streamed = At(streamed_, range.begin),
      .num_elements =
          static_cast<size_t>((range.end - range.begin) / element_bytes_),
      .divisor = instance_.final_op.is_identity() ? 1 : group_size_,
  });
}

absl::Status Reduction::ReduceInTiles(Range range) const {
  alignas(kLineBytes) uint8_t tile[kTileBytes];
  for (int64_t begin = range.begin; begin < range.end; begin += kTileBytes) {
    const Range part = {begin, std::min(begin + kTileBytes, range.end)};
    const absl::Status status = ReduceTile(part, tile);
    if (!status.ok()) return status;
    CopyToMany(tile, At(outputs_, begin), At(streamed_, begin),
               static_cast<size_t>(part.end - part.begin));
  }
  return absl::OkStatus();
}

absl::Status Reduction::ReduceTile(Range range, uint8_t* tile) const {
  const int64_t num_bytes = range.end - range.begin;
  const int64_t num_elements = num_bytes / element_bytes_;
  const uint8_t* sum = inputs_[0] + range.begin;
  if (group_size_ == 1) {
    std::memcpy(tile, sum, static_cast<size_t>(num_bytes));
  }
  for (size_t rank = 1; rank < inputs_.size(); ++rank) {
    const absl::Status status = instance_.merge_op.Apply(
        instance_.dtype, sum, inputs_[rank] + range.begin, tile, num_elements);
    if (!status.ok()) return status;
    sum = tile;
  }
  if (instance_.final_op.is_identity()) return absl::OkStatus();
  return instance_.final_op.Apply(instance_.dtype, tile, num_elements,
                                  group_size_);
}

// Of several slices that fail, the first one to end says why.
void Reduction::EndOne(const std::shared_ptr<Reduction>& self,
                       absl::Status status) {
  if (!status.ok()) {
    MutexLock lock(&self->mu_);
    self->status_.Update(status);
  }
  if (self->num_left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    MutexLock lock(&self->mu_);
    status = self->status_;
  }
  // A member that goes on to its next call may be that one's last.
  RunInTurn([self, status = std::move(status)] {
    for (Attendee& member : self->members_) std::move(member.done)(status);
  });
}

class LocalReducer : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    context.executor->Launched(context);
    const auto meeting = context.execution->Shared<LocalMeeting>();
    std::vector<Attendee> members = meeting->Join(context, std::move(done));
    if (!members.empty()) Reduction::Run(std::move(members));
  }
};

// Half a message, and half the bytes of a ring: less than what sends.
double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  if (size == 1) return 0;
  return TransferSeconds(query.model, 0.5,
                         (size - 1) / size * static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    LocalReduce,
    Implemented<LocalReducer>(
        {.summary = "one pass over memory, in rank order, where all members "
                    "are in one process",
         .collectives = {CollectiveType::kAllReduce, CollectiveType::kReduce},
         .device_types = {"CPU"},
         .needs_one_process = true,
         .preserves_rank_order = true,
         .determinism = Determinism::kByRankOrder,
         .cost_seconds = CostSeconds}));

}  // namespace
}  // namespace tutti
