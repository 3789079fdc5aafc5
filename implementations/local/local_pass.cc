#include "implementations/local/local_pass.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "implementations/parts/cost.h"

namespace tutti {
namespace {

// Constants below count the inputs and outputs of all members together.

// Bytes up to which one thread ends sooner than the work queue wakes another.
// Measured on an AMD EPYC with 2 cores and 32 MiB of last-level cache, November
// 2026.
constexpr int64_t kInlineBytes = int64_t{2} << 20;

// Number of slices for each worker, so that workers that wake early do work of
// workers that wake late. Slices have sizes between the two bounds. A cancelled
// pass ends with the slices that have begun. Measured with 2 and 16 processors
// of an Intel Xeon, November 2026.
constexpr int64_t kSlicesPerWorker = 4;
constexpr int64_t kMinSliceBytes = int64_t{256} << 10;
constexpr int64_t kMaxSliceBytes = int64_t{64} << 20;

// Slices begin at a cache line, and therefore at an element.
constexpr int64_t kLineBytes = 64;

// Costs half a message, and half the bytes of a ring.
double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  if (size == 1) return 0;
  return TransferSeconds(query.model.within, 0.5,
                         (size - 1) / size * static_cast<double>(query.bytes));
}

int64_t TensorBytes(absl::Span<const Attendee> members, bool one_output) {
  size_t bytes = one_output ? OutputOf(members[0]).size_bytes() : 0;
  for (const Attendee& member : members) {
    if (const SegmentList* const list = member.context->segments.get()) {
      bytes += 2 * static_cast<size_t>(list->num_bytes());
      continue;
    }
    bytes += member.context->input.size_bytes();
    if (!one_output) bytes += OutputOf(member).size_bytes();
  }
  return static_cast<int64_t>(bytes);
}

bool Streams(absl::Span<const Attendee> members, int64_t tensor_bytes) {
  for (const Attendee& member : members) {
    const StoreHint hint = member.context->store_hint;
    if (hint != StoreHint::kBySize) return hint == StoreHint::kPastCaches;
  }
  return tensor_bytes >= members[0].context->executor->past_caches_from_bytes();
}

bool IsLate(const Attendee& member) {
  return member.context->late_output != nullptr;
}

absl::StatusOr<Tensor> MakeOutput(const CollectiveContext& context) {
  return context.device->Allocate(context.params->instance->dtype,
                                  context.params->output_shape);
}

bool HaveOne(absl::Span<const Attendee> members) {
  const Tensor& first = *members[0].context->late_output;
  return first.is_set() && absl::c_all_of(members, [&](const Attendee& member) {
           const Tensor& output = *member.context->late_output;
           return output.is_set() && output.data() == first.data();
         });
}

}  // namespace

LocalPass::LocalPass(absl::Span<const Attendee> members,
                     std::optional<int64_t> touched_bytes)
    : members_(members),
      one_output_(ShareOutput(members)),
      tensor_bytes_(TensorBytes(members, one_output_)),
      touched_bytes_(touched_bytes.value_or(tensor_bytes_)),
      streams_(Streams(members, tensor_bytes_)) {}

bool LocalPass::is_small() const { return touched_bytes_ <= kInlineBytes; }

int64_t LocalPass::element_bytes() const {
  return static_cast<int64_t>(SizeOf(instance().dtype));
}

const uint8_t* LocalPass::input(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return reinterpret_cast<const uint8_t*>(
      members_[index].context->input.data());
}

uint8_t* LocalPass::output(int rank) const {
  if (one_output_ && rank > 0) return nullptr;
  const auto index = static_cast<size_t>(rank);
  // The context owns the tensor, but this execution may write its bytes.
  return const_cast<uint8_t*>(
      reinterpret_cast<const uint8_t*>(OutputOf(members_[index]).data()));
}

absl::Status LocalPass::RunHere() const {
  return RunUnlessCancelled({0, num_bytes()});
}

void LocalPass::Cut(int64_t line_bytes, int num_workers) {
  const int64_t wanted = std::max({int64_t{1}, touched_bytes_ / kMaxSliceBytes,
                                   std::min(touched_bytes_ / kMinSliceBytes,
                                            kSlicesPerWorker * num_workers)});
  const int64_t bytes = (line_bytes + wanted - 1) / wanted;
  line_bytes_ = line_bytes;
  slice_bytes_ = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  num_slices_ = (line_bytes + slice_bytes_ - 1) / slice_bytes_;
  num_left_ = num_slices_ + 1;  // The slices, and Schedule().
}

void LocalPass::Schedule(const std::shared_ptr<LocalPass>& pass,
                         StatusCallback done) {
  const int64_t line = pass->num_bytes();
  if (line == 0) return std::move(done)(pass->RunHere());
  WorkQueue& queue = *pass->members_[0].context->executor->environment().queue;
  pass->Cut(line, queue.num_workers());
  pass->done_ = std::move(done);
  const int64_t num_works =
      std::clamp<int64_t>(queue.num_workers(), 1, pass->num_slices_);
  for (int64_t i = 0; i < num_works && pass->num_begun_ < pass->num_slices_;
       ++i) {
    queue.Schedule([pass] { RunSlices(pass); });
  }
  // Ends last: when the calls have ended, the queue may be destroyed.
  End(pass, absl::OkStatus());
}

// Runs slices until none is left. A late worker does not touch members, because
// their calls may have ended.
void LocalPass::RunSlices(const std::shared_ptr<LocalPass>& self) {
  for (;;) {
    const int64_t begin =
        self->slice_bytes_ *
        self->num_begun_.fetch_add(1, std::memory_order_relaxed);
    if (begin >= self->line_bytes_) return;
    const int64_t end = std::min(begin + self->slice_bytes_, self->line_bytes_);
    End(self, self->RunUnlessCancelled({begin, end}));
  }
}

absl::Status LocalPass::RunUnlessCancelled(ByteRange slice) const {
  const Cancellation& cancellation =
      members_[0].context->execution->cancellation;
  if (cancellation.cancelled()) return cancellation.status();
  return Run(slice);
}

// Ends one slice. The first slice that fails sets the status.
void LocalPass::End(const std::shared_ptr<LocalPass>& self,
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
  // Late workers still hold the pass.
  StatusCallback done = std::move(self->done_);
  std::move(done)(std::move(status));
}

void LaunchTogether(absl::Span<const Attendee> members) {
  absl::InlinedVector<const CollectiveContext*, 16> contexts;
  for (const Attendee& member : members) contexts.push_back(member.context);
  contexts[0]->executor->LaunchedTogether(contexts);
}

ImplementationTraits LocalTraits(std::string summary,
                                 std::vector<CollectiveType> collectives) {
  ImplementationTraits traits;
  traits.summary =
      absl::StrCat(summary, ", where all members are in one process");
  traits.preserves_rank_order = absl::c_any_of(collectives, Reduces);
  traits.reduces_at_once = traits.preserves_rank_order;
  traits.collectives = std::move(collectives);
  traits.device_types = {"CPU"};
  traits.needs_one_process = true;
  traits.determinism = Determinism::kByRankOrder;
  traits.cost_seconds = CostSeconds;
  return traits;
}

absl::Status MakeLateOutputs(absl::Span<const Attendee> members) {
  if (absl::c_none_of(members, IsLate)) return absl::OkStatus();
  if (absl::c_all_of(members, IsLate)) {
    if (HaveOne(members)) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto made, MakeOutput(*members[0].context));
    for (const Attendee& member : members) {
      *member.context->late_output = made;
    }
    return absl::OkStatus();
  }
  // Existing outputs may be shared with other members, and are replaced.
  for (const Attendee& member : members) {
    if (!IsLate(member)) continue;
    ASSIGN_OR_RETURN(*member.context->late_output, MakeOutput(*member.context));
  }
  return absl::OkStatus();
}

bool ShareOutput(absl::Span<const Attendee> members) {
  return members.size() > 1 && absl::c_all_of(members, IsLate);
}

}  // namespace tutti
