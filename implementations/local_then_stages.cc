#include "implementations/local_then_stages.h"

#include <cstddef>
#include <utility>

#include "framework/collective_executor.h"
#include "framework/dtype.h"
#include "framework/execution.h"
#include "framework/fold.h"
#include "framework/local_buffers.h"
#include "framework/merge_op.h"
#include "framework/params.h"
#include "framework/reduction.h"
#include "framework/tensor.h"
#include "implementations/local_pass.h"
#include "schedule/between_tasks.h"

namespace tutti {
namespace {

// The last pass over more than this takes longer than the thread that ends the
// second stage, on which other transfers wait, should.
constexpr int64_t kInlineBytes = int64_t{64} << 10;

// Of those in this process, into the second one's output: the stage between
// processes need not copy what it reads and writes.
class PartialSum final : public LocalPass {
 public:
  PartialSum(absl::Span<const Attendee> members, ByteRange chunk)
      : LocalPass(members,
                  chunk.size() * (static_cast<int64_t>(members.size()) + 1)),
        chunk_(chunk) {
    for (int i = 0; i < group_size(); ++i) inputs_.push_back(input(i));
    outputs_.push_back(output(1));
  }

 private:
  int64_t num_bytes() const override { return chunk_.size(); }
  absl::Status Run(ByteRange slice) const override {
    const int64_t begin = chunk_.begin + slice.begin;
    return Fold(instance().dtype, instance().merge_op, FinalOp(),
                {.inputs = At<const uint8_t>(inputs_, begin),
                 .outputs = At<uint8_t>(outputs_, begin),
                 .num_bytes = slice.size()});
  }

  const ByteRange chunk_;
  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
};

// The final op on the first one's output, and that to the others.
class FinishAndFanOut final : public LocalPass {
 public:
  FinishAndFanOut(absl::Span<const Attendee> members, int num_merged,
                  ByteRange chunk)
      : LocalPass(members, chunk.size() * static_cast<int64_t>(members.size())),
        num_merged_(num_merged),
        chunk_(chunk) {
    for (int i = 1; i < group_size(); ++i) outputs_.push_back(output(i));
  }

 private:
  int64_t num_bytes() const override { return chunk_.size(); }
  absl::Status Run(ByteRange slice) const override {
    const int64_t begin = chunk_.begin + slice.begin;
    uint8_t* const result = output(0) + begin;
    const absl::Status status = instance().final_op.Apply(
        instance().dtype, result, slice.size() / element_bytes(), num_merged_);
    if (!status.ok()) return status;
    const Pointers<uint8_t> to = At<uint8_t>(outputs_, begin);
    const absl::Span<uint8_t* const> all(to), none;
    CopyToMany(result, streams() ? none : all, streams() ? all : none,
               static_cast<size_t>(slice.size()));
    return absl::OkStatus();
  }

  const int num_merged_;
  const ByteRange chunk_;
  Pointers<uint8_t> outputs_;
};

ByteRange BytesOf(Range elements, DType dtype) {
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  return {elements.begin * size, (elements.begin + elements.size) * size};
}

}  // namespace

LocalThenStages::LocalThenStages(absl::Span<const Attendee> members,
                                 LocalMeeting& meeting,
                                 const BetweenTasks& between)
    : members_(members),
      meeting_(meeting),
      between_(between),
      pipeline_(between.num_chunks(), first().execution->cancellation) {}

void LocalThenStages::GoOn() {
  // The last one may end it inside.
  const auto self = shared_from_this();
  const ChunkPipeline::Next next = pipeline_.Take();
  if (next.to_meet.has_value()) Meet(*next.to_meet);
  if (next.to_reduce.has_value()) Reduce(*next.to_reduce);
  if (next.ends) End();
}

void LocalThenStages::Reduce(int64_t index) {
  if (is_alone()) return OnReduced(absl::OkStatus());
  const auto pass = std::make_shared<PartialSum>(
      members_,
      BytesOf(between_.ChunkAt(index), first().params->instance->dtype));
  // Later ones start where others' transfers wait for the thread.
  if (index == 0 && pass->is_small()) return OnReduced(pass->RunHere());
  LocalPass::Schedule(pass, [self = shared_from_this()](absl::Status status) {
    self->OnReduced(std::move(status));
  });
}

void LocalThenStages::OnReduced(absl::Status status) {
  if (!status.ok()) Fail(std::move(status));
  pipeline_.EndReduce();
  GoOn();
}

// From the second member's output into the first one's.
void LocalThenStages::Meet(int64_t index) {
  const Range chunk = between_.ChunkAt(index);
  context_ = std::make_unique<CollectiveContext>();
  CollectiveContext& context = *context_;
  context.executor = first().executor;
  context.device = first().device;
  context.input =
      PartOf(is_alone() ? first().input : members_[1].context->output, chunk);
  context.output = PartOf(first().output, chunk);
  context.exec_key = first().exec_key;
  context.execution = first().execution;
  // Counted once, with the first chunk, or when the stage has ended.
  first().launched = true;
  context.launched = index > 0;
  between_.Run(index, context,
               [self = shared_from_this(), index](absl::Status status) {
                 self->OnMet(index, std::move(status));
               });
}

void LocalThenStages::OnMet(int64_t index, absl::Status status) {
  first().executor->Launched(*context_);
  const bool has_met = status.ok();
  if (!has_met) Fail(std::move(status));
  pipeline_.EndMeet(/*begins_spread=*/has_met);
  if (has_met) Spread(index);
  GoOn();
}

void LocalThenStages::Spread(int64_t index) {
  const CollectiveParams& params = *first().params;
  if (is_alone() && params.instance->final_op.is_identity()) {
    return OnSpread(absl::OkStatus());
  }
  const ByteRange chunk =
      BytesOf(between_.ChunkAt(index), params.instance->dtype);
  const auto pass =
      std::make_shared<FinishAndFanOut>(members_, params.group->size(), chunk);
  if (chunk.size() <= kInlineBytes) return OnSpread(pass->RunHere());
  LocalPass::Schedule(pass, [self = shared_from_this()](absl::Status status) {
    self->OnSpread(std::move(status));
    self->GoOn();
  });
}

void LocalThenStages::OnSpread(absl::Status status) {
  if (!status.ok()) Fail(std::move(status));
  pipeline_.EndSpread();
}

void LocalThenStages::Fail(absl::Status status) {
  first().executor->FailExecution(*first().execution, std::move(status));
}

// The tensors are the callers' once they hear of it.
void LocalThenStages::End() {
  context_.reset();
  meeting_.Adjourn(first().execution->cancellation.status());
}

}  // namespace tutti
