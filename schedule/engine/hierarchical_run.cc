#include "schedule/engine/hierarchical_run.h"

#include <utility>

#include "schedule/chunk_map.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Returns `elements` of `tensor` as a vector that shares its buffer.
Tensor PartOf(const Tensor& tensor, Range elements) {
  return *tensor.Reshaped(TensorShape::Vector(tensor.num_elements()))
              ->Slice(elements.begin, elements.begin + elements.size);
}

}  // namespace

HierarchicalRun::HierarchicalRun(std::shared_ptr<IntraTaskLevel> within,
                                 const InterTaskLevel& between,
                                 const CollectiveContext& first)
    : within_(std::move(within)),
      between_(between),
      first_(first),
      pipeline_(between.num_chunks(), first.execution->cancellation) {}

void HierarchicalRun::Meanwhile(absl::FunctionRef<absl::Status()> look) {
  if (!pipeline_.BeginOther()) return;
  FailUnlessOk(look());
  pipeline_.EndOther();
  GoOn();
}

void HierarchicalRun::GoOn() {
  // The last reference may end in a stage below.
  const auto self = shared_from_this();
  const ChunkPipeline::Next next = pipeline_.Take();
  if (next.to_meet.has_value()) Meet(ChunkAt(*next.to_meet));
  if (next.to_reduce.has_value()) Reduce(ChunkAt(*next.to_reduce));
  if (!next.ends) return;
  meeting_.reset();  // Callers own the tensors after End().
  within_->End();
}

void HierarchicalRun::Reduce(IntraTaskLevel::Chunk chunk) {
  within_->Reduce(chunk, [self = shared_from_this()](absl::Status status) {
    self->OnReduced(std::move(status));
  });
}

void HierarchicalRun::OnReduced(absl::Status status) {
  FailUnlessOk(std::move(status));
  pipeline_.EndReduce();
  GoOn();
}

void HierarchicalRun::Meet(IntraTaskLevel::Chunk chunk) {
  CollectiveContext& context = meeting_.emplace(chunk).context;
  context.executor = first_.executor;
  context.exec_key = first_.exec_key;
  context.execution = first_.execution;
  // The first member is counted as launched once.
  const bool launches = within_->launches_between_tasks();
  if (launches) first_.launched = true;
  context.launched = !launches || chunk.index > 0;
  absl::Status status = within_->BeginMeet(chunk, context);
  if (!status.ok()) return OnMet(std::move(status));
  context.input = PartOf(context.input, chunk.elements);
  context.output = PartOf(context.output, chunk.elements);
  between_.Run(chunk.index, context,
               [self = shared_from_this()](absl::Status met) {
                 self->OnMet(std::move(met));
               });
}

void HierarchicalRun::OnMet(absl::Status status) {
  const IntraTaskLevel::Chunk chunk = meeting_->chunk;
  first_.executor->Launched(meeting_->context);  // If Run() has not.
  FailUnlessOk(std::move(status));
  const bool goes_on = !first_.execution->cancellation.cancelled();
  pipeline_.EndMeet(/*begins_spread=*/goes_on);
  if (goes_on) Spread(chunk);
  GoOn();
}

void HierarchicalRun::Spread(IntraTaskLevel::Chunk chunk) {
  within_->Spread(chunk, [self = shared_from_this()](absl::Status status) {
    self->OnSpread(std::move(status));
  });
}

void HierarchicalRun::OnSpread(absl::Status status) {
  FailUnlessOk(std::move(status));
  pipeline_.EndSpread();
  GoOn();
}

void HierarchicalRun::FailUnlessOk(absl::Status status) {
  if (status.ok()) return;
  first_.executor->FailExecution(*first_.execution, std::move(status));
}

}  // namespace tutti
