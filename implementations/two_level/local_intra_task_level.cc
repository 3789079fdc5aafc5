#include "implementations/two_level/local_intra_task_level.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "framework/base/block_cache.h"
#include "framework/base/status_macros.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"
#include "schedule/chunk_map.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Bytes up to which the last pass runs on the thread that ends the level
// between tasks. Other transfers wait for that thread.
constexpr int64_t kInlineBytes = int64_t{64} << 10;

// Sum of the members of this process, in the output of the second member. The
// level between tasks then has separate input and output, and need not copy.
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

// Applies the final op to the first member's output and copies it to the
// others.
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
    RETURN_IF_ERROR(instance().final_op.Apply(
        instance().dtype, result, slice.size() / element_bytes(), num_merged_));
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

void LocalIntraTaskLevel::Reduce(Chunk chunk, StatusCallback done) {
  if (is_alone()) return std::move(done)(absl::OkStatus());
  const auto pass = std::allocate_shared<PartialSum>(
      CachedAllocator<PartialSum>(), members_,
      BytesOf(chunk.elements, first().params->instance->dtype));
  // Later chunks start on threads that other members' transfers wait for.
  if (chunk.index == 0 && pass->is_small()) {
    return std::move(done)(pass->RunHere());
  }
  LocalPass::Schedule(pass, std::move(done));
}

// Meets from the second member's output into the first member's output.
absl::Status LocalIntraTaskLevel::BeginMeet(Chunk /*chunk*/,
                                            CollectiveContext& context) {
  context.device = first().device;
  context.input = is_alone() ? first().input : members_[1].context->output;
  context.output = first().output;
  return absl::OkStatus();
}

void LocalIntraTaskLevel::Spread(Chunk chunk, StatusCallback done) {
  const CollectiveParams& params = *first().params;
  if (is_alone() && params.instance->final_op.is_identity()) {
    return std::move(done)(absl::OkStatus());
  }
  const ByteRange bytes = BytesOf(chunk.elements, params.instance->dtype);
  const auto pass = std::allocate_shared<FinishAndFanOut>(
      CachedAllocator<FinishAndFanOut>(), members_, params.group->size(),
      bytes);
  if (bytes.size() <= kInlineBytes) return std::move(done)(pass->RunHere());
  LocalPass::Schedule(pass, std::move(done));
}

void LocalIntraTaskLevel::End() {
  meeting_.Adjourn(first().execution->cancellation.status());
}

}  // namespace tutti
