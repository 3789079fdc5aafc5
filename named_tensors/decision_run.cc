#include "named_tensors/decision_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "framework/tensor/device_copies.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// State of a decision's execution until it ends.
struct Run {
  DecisionGroup group;
  proto::Decision decision;
  std::vector<PendingTensorPtr> tensors;
  StatusCallback done;
  Tensor output;  // Output of the execution.
  Tensor parts;   // Row r holds the part of rank r, for gathers in parts.

  PendingTensor& first() const { return *tensors.front(); }
  Device& device() const { return *group.device; }
  size_t part_bytes() const {
    return parts.size_bytes() / static_cast<size_t>(group.num_ranks);
  }
  std::byte* PartOf(int rank) {
    return parts.mutable_data() + static_cast<size_t>(rank) * part_bytes();
  }
};
using RunPtr = std::shared_ptr<Run>;

CollectiveRequest RequestOf(const Run& run, CollectiveOp op,
                            TensorShape shape) {
  CollectiveRequest request;
  request.group_key = run.group.group_key;
  request.group_size = run.group.num_ranks;
  request.device_type = run.device().attributes().name.type;
  request.rank = run.group.rank;
  request.instance_key = run.decision.instance();
  request.dtype = run.first().request.dtype;
  if (std::holds_alternative<AllReduce>(op)) {
    request.merge_op = run.first().tensor.merge_op;
  }
  request.op = std::move(op);
  request.shape = std::move(shape);
  return request;
}

// Executes the decision's collective, with `input` or `segments`. An error of
// these cancels the execution: the other ranks do not wait for this one.
template <typename Inputs>
void Execute(const RunPtr& run, CollectiveRequest request,
             absl::StatusOr<Inputs> inputs, Tensor* output,
             StatusCallback done) {
  CollectiveArgs args = {
      .device = run->group.device.get(),
      .request = std::make_shared<const CollectiveRequest>(std::move(request)),
      .output = output,
      .cancellation = run->group.cancellation,
      .execution = run->decision.execution()};
  if (!inputs.ok()) {
    args.cancellation = std::make_shared<Cancellation>();
    args.cancellation->Cancel(inputs.status());
  } else if constexpr (std::is_same_v<Inputs, Tensor>) {
    args.input = *std::move(inputs);
  } else {
    args.segments = *std::move(inputs);
  }
  const auto executor = run->group.executor;  // `done` drops the run's.
  executor->ExecuteAsync(std::move(args), std::move(done));
}

// Ends the run, and returns its output if the run is a gather. Drops buffers
// and device first: `done` may destroy what they need, and others keep the run.
void Finish(const RunPtr& run, absl::Status status) {
  if (status.ok() && run->first().request.type == CollectiveType::kAllGather) {
    *run->first().tensor.output = std::move(run->output);
  }
  run->output = run->parts = Tensor();
  run->tensors.clear();
  run->group = DecisionGroup();
  std::move(run->done)(std::move(status));
}

void Gather(const RunPtr& run) {
  const auto& rows = run->decision.rows();
  const bool is_even =
      std::all_of(rows.begin(), rows.end(),
                  [&](int64_t of_rank) { return of_rank == rows[0]; });
  AllGather gather{.uneven = !is_even};
  if (!is_even) gather.rows.assign(rows.begin(), rows.end());
  Execute<Tensor>(
      run, RequestOf(*run, std::move(gather), run->first().request.shape),
      run->first().tensor.input, &run->output,
      [run](absl::Status status) { Finish(run, std::move(status)); });
}

// Reduces in the shape of a vector: all tensors of a size share one instance.
// REQUIRES: output and size are checked.
void Reduce(const RunPtr& run) {
  const PendingTensor& pending = run->first();
  const auto shape = TensorShape::Vector(pending.request.shape.num_elements());
  run->output = *pending.tensor.output->Reshaped(shape);
  Execute(run, RequestOf(*run, AllReduce{}, shape),
          pending.tensor.input.Reshaped(shape), &run->output,
          [run](absl::Status status) { Finish(run, std::move(status)); });
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

absl::StatusOr<std::shared_ptr<const SegmentList>> SegmentsOf(const Run& run) {
  std::vector<SegmentList::Segment> segments;
  int64_t num_missing = run.decision.fused_elements();
  for (const PendingTensorPtr& pending : run.tensors) {
    segments.push_back({pending->tensor.input, *pending->tensor.output});
    num_missing -= pending->request.shape.num_elements();
  }
  ASSIGN_OR_RETURN(
      auto padding,
      Padding(run.device(), segments[0].input.dtype(), num_missing));
  segments.push_back(std::move(padding));
  return SegmentList::Create(std::move(segments));
}

void ReduceTogether(const RunPtr& run) {
  Execute(run,
          RequestOf(*run, AllReduce{},
                    TensorShape::Vector(run->decision.fused_elements())),
          SegmentsOf(*run), /*output=*/nullptr,
          [run](absl::Status status) { Finish(run, std::move(status)); });
}

// --- Gathers in equal parts --------------------------------------------------

absl::Status AllocateParts(Run& run) {
  const TensorRequest& request = run.first().request;
  const auto& rows = run.decision.rows();
  ASSIGN_OR_RETURN(const auto shape,
                   request.shape.WithFirstDim(
                       std::accumulate(rows.begin(), rows.end(), int64_t{0})));
  ASSIGN_OR_RETURN(const auto parts_shape,
                   TensorShape::Create(
                       {run.group.num_ranks, run.decision.fused_elements()}));
  ASSIGN_OR_RETURN(run.output, run.device().Allocate(request.dtype, shape));
  ASSIGN_OR_RETURN(run.parts,
                   run.device().Allocate(request.dtype, parts_shape));
  return absl::OkStatus();
}

void Copy(const Run& run, absl::FunctionRef<absl::Status(CopyPiece)> copies,
          StatusCallback done) {
  CopyOnDevice(run.device(), *run.group.executor->environment().clock, copies,
               std::move(done));
}

// Copies the input to this rank's part. The rest of the part is sent, too, and
// therefore cleared.
absl::Status CopyInput(Run& run, CopyPiece copy) {
  const Tensor& input = run.first().tensor.input;
  std::byte* const part = run.PartOf(run.group.rank);
  if (run.device().has_host_memory()) {
    std::memset(part + input.size_bytes(), 0,
                run.part_bytes() - input.size_bytes());
  }
  return copy(part, input.data(), input.size_bytes());
}

absl::Status CopyOutput(Run& run, CopyPiece copy) {
  std::byte* into = run.output.mutable_data();
  for (int rank = 0; rank < run.decision.rows_size(); ++rank) {
    const size_t num_bytes =
        run.output.Slice(0, run.decision.rows(rank))->size_bytes();
    RETURN_IF_ERROR(copy(into, run.PartOf(rank), num_bytes));
    into += num_bytes;
  }
  return absl::OkStatus();
}

void GatherParts(const RunPtr& run, const absl::Status& ready) {
  const int rank = run->group.rank;
  Execute<Tensor>(
      run,
      RequestOf(*run, AllGather{},
                *TensorShape::Create({1, run->decision.fused_elements()})),
      ready.ok() ? run->parts.Slice(rank, rank + 1) : ready, &run->parts,
      [run](absl::Status status) {
        if (!status.ok()) return Finish(run, std::move(status));
        run->group.executor->environment().queue->Schedule([run] {
          Copy(
              *run, [&run](CopyPiece copy) { return CopyOutput(*run, copy); },
              [run](absl::Status status) { Finish(run, std::move(status)); });
        });
      });
}

// Gathers equally long parts and cuts the ranks' rows out of them.
void GatherInParts(const RunPtr& run) {
  const absl::Status status = AllocateParts(*run);
  if (!status.ok()) return GatherParts(run, status);
  Copy(
      *run, [&run](CopyPiece copy) { return CopyInput(*run, copy); },
      [run](const absl::Status& ready) { GatherParts(run, ready); });
}

}  // namespace

void RunDecision(DecisionGroup group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done) {
  const auto run = std::make_shared<Run>(
      Run{std::move(group), decision, std::move(tensors), std::move(done)});
  const bool gathers = run->first().request.type == CollectiveType::kAllGather;
  if (decision.fused_elements() == 0) {
    return gathers ? Gather(run) : Reduce(run);
  }
  run->group.executor->environment().queue->Schedule(
      [run, gathers] { gathers ? GatherInParts(run) : ReduceTogether(run); });
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
