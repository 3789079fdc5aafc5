#include "named_tensors/decision_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "framework/tensor/device_copies.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

CollectiveRequest RequestOf(const DecisionGroup& group,
                            const proto::Decision& decision,
                            const PendingTensor& first) {
  CollectiveRequest request;
  request.group_key = group.group_key;
  request.group_size = group.num_ranks;
  request.device_type = group.device->attributes().name.type;
  request.rank = group.rank;
  request.instance_key = decision.instance();
  request.op = AllReduce{};
  request.dtype = first.request.dtype;
  request.merge_op = first.tensor.merge_op;
  return request;
}

// State of an execution until it ends.
struct Run {
  DecisionGroup group;
  Tensor output;
  std::vector<PendingTensorPtr> tensors;
  StatusCallback done;
};

void Execute(const proto::Decision& decision, CollectiveRequest request,
             Tensor input, const std::shared_ptr<Run>& run,
             StatusCallback done) {
  const DecisionGroup& group = run->group;
  group.executor->ExecuteAsync(
      {.device = group.device.get(),
       .request = std::make_shared<const CollectiveRequest>(std::move(request)),
       .input = std::move(input),
       .output = &run->output,
       .cancellation = group.cancellation,
       .execution = decision.execution()},
      std::move(done));
}

void Gather(const proto::Decision& decision, const std::shared_ptr<Run>& run) {
  PendingTensor& pending = *run->tensors.front();
  CollectiveRequest request = RequestOf(run->group, decision, pending);
  const auto& rows = decision.rows();
  const bool is_even =
      std::all_of(rows.begin(), rows.end(),
                  [&](int64_t of_rank) { return of_rank == rows[0]; });
  AllGather gather{.uneven = !is_even};
  if (!is_even) gather.rows.assign(rows.begin(), rows.end());
  request.op = std::move(gather);
  request.shape = pending.request.shape;
  request.merge_op = MergeOp();
  Execute(decision, std::move(request), pending.tensor.input, run,
          [run, &pending](absl::Status status) {
            if (status.ok()) *pending.tensor.output = std::move(run->output);
            std::move(run->done)(std::move(status));
          });
}

// Reduces in the shape of a vector: all tensors of a size share one instance.
// REQUIRES: output and size are checked.
void Reduce(const proto::Decision& decision, const std::shared_ptr<Run>& run) {
  PendingTensor& pending = *run->tensors.front();
  CollectiveRequest request = RequestOf(run->group, decision, pending);
  request.shape = TensorShape::Vector(pending.request.shape.num_elements());
  Tensor input = *pending.tensor.input.Reshaped(request.shape);
  run->output = *pending.tensor.output->Reshaped(request.shape);
  Execute(
      decision, std::move(request), std::move(input), run,
      [run](absl::Status status) { std::move(run->done)(std::move(status)); });
}

// Segment that fills up the decided length: few lengths make few instances.
// Nobody reads the result. If the processor cannot write zeros, the content is
// arbitrary.
absl::StatusOr<SegmentList::Segment> Padding(Device& device, DType dtype,
                                             int64_t num_elements) {
  ASSIGN_OR_RETURN(auto zeros,
                   device.Allocate(dtype, TensorShape::Vector(num_elements)));
  if (num_elements > 0 && device.has_host_memory()) {
    std::memset(zeros.mutable_data(), 0, zeros.size_bytes());
  }
  return SegmentList::Segment{zeros, zeros};
}

absl::StatusOr<std::shared_ptr<const SegmentList>> SegmentsOf(
    const proto::Decision& decision, const Run& run) {
  std::vector<SegmentList::Segment> segments;
  int64_t num_missing = decision.fused_elements();
  for (const PendingTensorPtr& pending : run.tensors) {
    segments.push_back({pending->tensor.input, *pending->tensor.output});
    num_missing -= pending->request.shape.num_elements();
  }
  ASSIGN_OR_RETURN(
      auto padding,
      Padding(*run.group.device, segments[0].input.dtype(), num_missing));
  segments.push_back(std::move(padding));
  return SegmentList::Create(std::move(segments));
}

// Cancels the execution if this rank cannot take part: the other ranks do not
// wait for it.
void GiveUp(CollectiveArgs& args, const absl::Status& reason) {
  args.cancellation = std::make_shared<Cancellation>();
  args.cancellation->Cancel(reason);
}

void ReduceTogether(const proto::Decision& decision,
                    const std::shared_ptr<Run>& run) {
  CollectiveRequest request =
      RequestOf(run->group, decision, *run->tensors.front());
  request.shape = TensorShape::Vector(decision.fused_elements());
  CollectiveArgs args = {
      .device = run->group.device.get(),
      .request = std::make_shared<const CollectiveRequest>(std::move(request)),
      .cancellation = run->group.cancellation,
      .execution = decision.execution()};
  auto segments = SegmentsOf(decision, *run);
  if (segments.ok()) {
    args.segments = *std::move(segments);
  } else {
    GiveUp(args, segments.status());
  }
  run->group.executor->ExecuteAsync(
      std::move(args),
      [run](absl::Status status) { std::move(run->done)(std::move(status)); });
}

// --- Gathers in equal parts --------------------------------------------------

struct PartsRun {
  proto::Decision decision;
  std::shared_ptr<Run> run;
  Tensor parts;   // Row r holds the part of rank r.
  Tensor output;  // Output of the request.

  PendingTensor& pending() const { return *run->tensors.front(); }
  Device& device() const { return *run->group.device; }
  size_t part_bytes() const {
    return parts.size_bytes() / static_cast<size_t>(run->group.num_ranks);
  }
  std::byte* PartOf(int rank) {
    return parts.mutable_data() + static_cast<size_t>(rank) * part_bytes();
  }
};

absl::Status AllocateParts(PartsRun& run) {
  const TensorRequest& request = run.pending().request;
  const auto& rows = run.decision.rows();
  ASSIGN_OR_RETURN(const auto shape,
                   request.shape.WithFirstDim(
                       std::accumulate(rows.begin(), rows.end(), int64_t{0})));
  ASSIGN_OR_RETURN(const auto parts_shape,
                   TensorShape::Create({run.run->group.num_ranks,
                                        run.decision.fused_elements()}));
  ASSIGN_OR_RETURN(auto output, run.device().Allocate(request.dtype, shape));
  ASSIGN_OR_RETURN(auto parts,
                   run.device().Allocate(request.dtype, parts_shape));
  run.output = std::move(output);
  run.parts = std::move(parts);
  return absl::OkStatus();
}

void Copy(const PartsRun& run,
          absl::FunctionRef<absl::Status(CopyPiece)> copies,
          StatusCallback done) {
  CopyOnDevice(run.device(), *run.run->group.executor->environment().clock,
               copies, std::move(done));
}

// Copies the input to this rank's part. The rest of the part is sent, too, and
// therefore cleared.
absl::Status CopyInput(PartsRun& run, CopyPiece copy) {
  const Tensor& input = run.pending().tensor.input;
  std::byte* const part = run.PartOf(run.run->group.rank);
  if (run.device().has_host_memory()) {
    std::memset(part + input.size_bytes(), 0,
                run.part_bytes() - input.size_bytes());
  }
  return copy(part, input.data(), input.size_bytes());
}

absl::Status CopyOutput(PartsRun& run, CopyPiece copy) {
  std::byte* into = run.output.mutable_data();
  for (int rank = 0; rank < run.decision.rows_size(); ++rank) {
    const size_t num_bytes =
        run.output.Slice(0, run.decision.rows(rank))->size_bytes();
    RETURN_IF_ERROR(copy(into, run.PartOf(rank), num_bytes));
    into += num_bytes;
  }
  return absl::OkStatus();
}

void OnPartsGathered(const std::shared_ptr<PartsRun>& run) {
  Copy(
      *run, [&run](CopyPiece copy) { return CopyOutput(*run, copy); },
      [run](absl::Status status) {
        if (status.ok()) {
          *run->pending().tensor.output = std::move(run->output);
        }
        std::move(run->run->done)(std::move(status));
      });
}

void GatherParts(const std::shared_ptr<PartsRun>& run,
                 const absl::Status& ready) {
  const DecisionGroup& group = run->run->group;
  CollectiveRequest request = RequestOf(group, run->decision, run->pending());
  request.op = AllGather{};
  request.shape = *TensorShape::Create({1, run->decision.fused_elements()});
  request.merge_op = MergeOp();
  CollectiveArgs args = {
      .device = group.device.get(),
      .request = std::make_shared<const CollectiveRequest>(std::move(request)),
      .output = &run->parts,
      .cancellation = group.cancellation,
      .execution = run->decision.execution()};
  if (ready.ok()) {
    args.input = *run->parts.Slice(group.rank, group.rank + 1);
  } else {
    GiveUp(args, ready);
  }
  group.executor->ExecuteAsync(std::move(args), [run](absl::Status status) {
    if (!status.ok()) return std::move(run->run->done)(std::move(status));
    run->run->group.executor->environment().queue->Schedule(
        [run] { OnPartsGathered(run); });
  });
}

// Gathers equally long parts and cuts the ranks' rows out of them.
void GatherInParts(const std::shared_ptr<PartsRun>& run) {
  const absl::Status status = AllocateParts(*run);
  if (!status.ok()) return GatherParts(run, status);
  Copy(
      *run, [&run](CopyPiece copy) { return CopyInput(*run, copy); },
      [run](const absl::Status& ready) { GatherParts(run, ready); });
}

}  // namespace

void RunDecision(const DecisionGroup& group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done) {
  const auto run = std::make_shared<Run>();
  run->group = group;
  run->tensors = std::move(tensors);
  run->done = std::move(done);
  const bool gathers =
      run->tensors.front()->request.type == CollectiveType::kAllGather;
  if (decision.fused_elements() == 0) {
    return gathers ? Gather(decision, run) : Reduce(decision, run);
  }
  group.executor->environment().queue->Schedule([decision, run, gathers] {
    if (!gathers) return ReduceTogether(decision, run);
    GatherInParts(
        std::make_shared<PartsRun>(PartsRun{.decision = decision, .run = run}));
  });
}

void RunsInOrder::Add(Run run) {
  {
    MutexLock lock(&mu_);
    waiting_.push_back(std::move(run));
    if (is_beginning_) return;
    is_beginning_ = true;
  }
  BeginAll();
}

// Loops, because recursion would deepen the stack for runs that end at once. A
// loop under way on any thread also begins the runs that become due.
void RunsInOrder::BeginAll() {
  for (Run next = TakeNext(); next != nullptr; next = TakeNext()) {
    std::move(next)([self = shared_from_this()] {
      {
        MutexLock lock(&self->mu_);
        self->one_runs_ = false;
        if (std::exchange(self->is_beginning_, true)) return;
      }
      self->BeginAll();
    });
  }
}

// Returns null if nothing waits or a run is under way. The loop has then ended.
RunsInOrder::Run RunsInOrder::TakeNext() {
  MutexLock lock(&mu_);
  if (one_runs_ || waiting_.empty()) {
    is_beginning_ = false;
    return nullptr;
  }
  one_runs_ = true;
  Run next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

}  // namespace tutti
