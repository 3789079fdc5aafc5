#include "framework/coordinator/decision_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/dtype.h"
#include "framework/segment_list.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"

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

// One execution, and what it needs until it ends.
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
  request.op = AllGather{.uneven = !is_even};
  request.shape = pending.request.shape;
  request.merge_op = MergeOp();
  Execute(decision, std::move(request), pending.tensor.input, run,
          [run, &pending](absl::Status status) {
            if (status.ok()) *pending.tensor.output = std::move(run->output);
            std::move(run->done)(std::move(status));
          });
}

// Under the shape of a vector, so that all tensors of a size are one instance.
// Output and size have been checked.
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

// What makes up the length that has been decided: few lengths make few
// instances. Nobody looks at the result, so where the processor cannot write
// zeros, anything will do.
absl::StatusOr<SegmentList::Segment> Padding(Device& device, DType dtype,
                                             int64_t num_elements) {
  auto zeros = device.Allocate(dtype, TensorShape::Vector(num_elements));
  if (!zeros.ok()) return zeros.status();
  if (num_elements > 0 && device.has_host_memory()) {
    std::memset(zeros->mutable_data(), 0, zeros->size_bytes());
  }
  return SegmentList::Segment{*zeros, *zeros};
}

absl::StatusOr<std::shared_ptr<const SegmentList>> SegmentsOf(
    const proto::Decision& decision, const Run& run) {
  std::vector<SegmentList::Segment> segments;
  int64_t num_missing = decision.fused_elements();
  for (const PendingTensorPtr& pending : run.tensors) {
    segments.push_back({pending->tensor.input, *pending->tensor.output});
    num_missing -= pending->request.shape.num_elements();
  }
  auto padding =
      Padding(*run.group.device, segments[0].input.dtype(), num_missing);
  if (!padding.ok()) return padding.status();
  segments.push_back(*std::move(padding));
  return SegmentList::Create(std::move(segments));
}

// A rank that has no segments gives the execution up, so that the others do not
// wait for it.
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
    args.cancellation = std::make_shared<Cancellation>();
    args.cancellation->Cancel(segments.status());
  }
  run->group.executor->ExecuteAsync(
      std::move(args),
      [run](absl::Status status) { std::move(run->done)(std::move(status)); });
}

}  // namespace

void RunDecision(const DecisionGroup& group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done) {
  const auto run = std::make_shared<Run>();
  run->group = group;
  run->tensors = std::move(tensors);
  run->done = std::move(done);
  if (decision.fused_elements() > 0) {
    return group.executor->environment().queue->Schedule(
        [decision, run] { ReduceTogether(decision, run); });
  }
  if (run->tensors.front()->request.type == CollectiveType::kAllGather) {
    return Gather(decision, run);
  }
  Reduce(decision, run);
}

}  // namespace tutti
