#include "implementations/local_then_delegate.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/collective_executor.h"
#include "framework/execution.h"
#include "framework/fold.h"
#include "framework/local_buffers.h"
#include "framework/local_meeting.h"
#include "framework/peer_access.h"
#include "framework/reduction.h"
#include "implementations/local_pass.h"
#include "schedule/first_members.h"

namespace tutti {
namespace {

// The second pass takes longer than this thread, which is the delegate's and on
// which its other transfers wait, should: as what MPI finishes inline.
constexpr size_t kInlineBytes = size_t{64} << 10;

// Of those in this process, into the second one's output: the delegate need not
// copy what it reads and writes.
class PartialSum final : public LocalPass {
 public:
  PartialSum(absl::Span<const Attendee> members, const CollInstanceParams& sum)
      : LocalPass(members), sum_(sum) {
    for (int i = 0; i < group_size(); ++i) inputs_.push_back(input(i));
    outputs_.push_back(output(1));
  }

 private:
  int64_t num_bytes() const override {
    return sum_.shape.num_elements() * element_bytes();
  }
  absl::Status Run(ByteRange slice) const override {
    return Fold(sum_.dtype, sum_.merge_op, sum_.final_op,
                {.inputs = At<const uint8_t>(inputs_, slice.begin),
                 .outputs = At<uint8_t>(outputs_, slice.begin),
                 .num_bytes = slice.end - slice.begin});
  }

  const CollInstanceParams& sum_;
  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
};

// The final op on the first one's output, and that to the others.
class FinishAndFanOut final : public LocalPass {
 public:
  FinishAndFanOut(absl::Span<const Attendee> members, int num_merged)
      : LocalPass(members), num_merged_(num_merged) {
    for (int i = 1; i < group_size(); ++i) outputs_.push_back(output(i));
  }

 private:
  int64_t num_bytes() const override {
    return instance().shape.num_elements() * element_bytes();
  }
  absl::Status Run(ByteRange slice) const override {
    uint8_t* const result = output(0) + slice.begin;
    const int64_t num_bytes = slice.end - slice.begin;
    const absl::Status status = instance().final_op.Apply(
        instance().dtype, result, num_bytes / element_bytes(), num_merged_);
    if (!status.ok()) return status;
    const Pointers<uint8_t> to = At<uint8_t>(outputs_, slice.begin);
    const absl::Span<uint8_t* const> all(to), none;
    CopyToMany(result, streams() ? none : all, streams() ? all : none,
               static_cast<size_t>(num_bytes));
    return absl::OkStatus();
  }

  const int num_merged_;
  Pointers<uint8_t> outputs_;
};

}  // namespace

// One execution, in this process.
class LocalThenDelegate::Stages : public std::enable_shared_from_this<Stages> {
 public:
  Stages(absl::Span<const Attendee> members, LocalMeeting& meeting)
      : members_(members),
        meeting_(meeting),
        between_(*static_cast<const Between*>(
            members[0].context->implementation_state)) {}

  void Start() {
    const CollectiveContext& first = *members_[0].context;
    context_.params = &between_.params;
    context_.executor = first.executor;
    context_.device = first.device;
    context_.input =
        members_.size() == 1 ? first.input : members_[1].context->output;
    context_.output = first.output;
    context_.exec_key = first.exec_key;
    context_.execution = first.execution;
    context_.implementation_state = between_.delegate_state;
    if (members_.size() == 1) return ReduceBetween(absl::OkStatus());
    const auto pass =
        std::make_shared<PartialSum>(members_, *between_.params.instance);
    if (pass->is_small()) return ReduceBetween(pass->RunHere());
    LocalPass::Schedule(pass, [self = shared_from_this()](absl::Status status) {
      self->ReduceBetween(std::move(status));
    });
  }

 private:
  void ReduceBetween(absl::Status status) {
    if (!status.ok()) return End(std::move(status));
    // Counted once, when the delegate says so, or when it has ended.
    members_[0].context->launched = true;
    const std::shared_ptr<Stages> self = shared_from_this();
    context_.executor->peers().delegate()->Run(
        context_, [self](absl::Status ended) {
          self->context_.executor->Launched(self->context_);
          self->Finish(std::move(ended));
        });
  }

  void Finish(absl::Status status) {
    const CollectiveParams& params = *members_[0].context->params;
    const bool is_over =
        members_.size() == 1 && params.instance->final_op.is_identity();
    if (!status.ok() || is_over) return End(std::move(status));
    const auto pass =
        std::make_shared<FinishAndFanOut>(members_, params.group->size());
    if (context_.output.size_bytes() <= kInlineBytes) {
      return End(pass->RunHere());
    }
    LocalPass::Schedule(pass, [self = shared_from_this()](absl::Status ended) {
      self->End(std::move(ended));
    });
  }

  // The tensors are the callers' once they hear of it.
  void End(absl::Status status) {
    context_.input = Tensor();
    context_.output = Tensor();
    meeting_.Adjourn(std::move(status));
  }

  const absl::Span<const Attendee> members_;  // Valid until Adjourn().
  LocalMeeting& meeting_;
  const Between& between_;
  CollectiveContext context_;  // What the delegate gets.
};

absl::Status LocalThenDelegate::InitializeCollectiveContext(
    CollectiveContext* context) {
  CollectiveDelegate* const delegate = context->executor->peers().delegate();
  if (delegate == nullptr || delegate->name() != delegate_) {
    return absl::FailedPreconditionError(absl::StrCat(
        delegate_, " does not connect the processes of the group"));
  }
  if (!IsFirstOfTask(*context->params)) return absl::OkStatus();
  std::call_once(once_, [&] { status_ = PrepareBetween(*context, *delegate); });
  context->implementation_state = &between_;
  return status_;
}

absl::Status LocalThenDelegate::PrepareBetween(const CollectiveContext& context,
                                               CollectiveDelegate& delegate) {
  between_.params = AmongFirstMembers(*context.params);
  CollectiveContext between;
  between.params = &between_.params;
  between.executor = context.executor;
  between.device = context.device;
  const absl::Status status = delegate.Prepare(&between);
  between_.delegate_state = between.implementation_state;
  return status;
}

void LocalThenDelegate::Run(const CollectiveContext& context,
                            StatusCallback done) {
  if (!IsFirstOfTask(*context.params)) context.executor->Launched(context);
  LocalMeeting& meeting = context.execution->Shared<LocalMeeting>();
  const auto members = meeting.Join(context, std::move(done));
  if (!members.empty()) std::make_shared<Stages>(members, meeting)->Start();
}

}  // namespace tutti
