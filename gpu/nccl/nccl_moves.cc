// Collectives of NCCL that move blocks and reduce nothing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Part of a buffer that moves between two ranks.
struct Block {
  std::byte* begin = nullptr;
  size_t num_elements = 0;
};

// Plans the moves of a member.
class Planner {
 public:
  explicit Planner(const CollectiveContext& context) : context_(context) {}

  const CollectiveContext& context() const { return context_; }
  const CollInstanceParams& instance() const {
    return *context_.params->instance;
  }
  int size() const { return context_.params->group->size(); }
  NcclPlan& plan() { return plan_; }

  // Takes the block from `from` to `to` at `*next`, and moves `*next` past it.
  // For collectives that move blocks (BlockRows()).
  Block Take(int from, int to, std::byte** next) const {
    const int64_t rows = BlockRows(instance(), size(), from, to);
    const Block block = {.begin = *next,
                         .num_elements = static_cast<size_t>(
                             rows * RowElements(instance().shape))};
    if (*next != nullptr) {
      *next += block.num_elements * SizeOf(instance().dtype);
    }
    return block;
  }

  // Append the send, the receive or the copy of this member's block. Sends and
  // receives skip empty blocks and blocks to the rank itself, which AppendOwn()
  // copies.
  void AppendSend(int to, const Block& block) {
    AppendCall(to, block, {.op = NcclOp::kSend, .input = block.begin});
  }
  void AppendRecv(int from, const Block& block) {
    AppendCall(from, block, {.op = NcclOp::kRecv, .output = block.begin});
  }
  void AppendOwn(const Block& from, const Block& to) {
    AppendCopies(from.begin, {to.begin},
                 from.num_elements * SizeOf(instance().dtype), &plan_.before);
  }

  // Returns the input, or a copy of it if the output has the same memory:
  // received bytes would overwrite unsent ones. Errors: as
  // CudaDevice::Allocate.
  absl::StatusOr<std::byte*> SendableInput() {
    const Tensor& input = context_.input;
    // Const in effect: nobody writes to it.
    auto* const data = const_cast<std::byte*>(input.data());
    if (OverlapOf(input, context_.output) == Overlap::kNone) return data;
    ASSIGN_OR_RETURN(plan_.scratch, CudaDeviceOf(context_).Allocate(
                                        input.dtype(), input.shape()));
    std::byte* const copy = plan_.scratch.mutable_data();
    AppendCopies(data, {copy}, input.size_bytes(), &plan_.before);
    return copy;
  }

 private:
  void AppendCall(int peer, const Block& block, NcclCall call) {
    if (block.num_elements == 0 || peer == context_.rank()) return;
    call.num_elements = block.num_elements;
    call.dtype = instance().dtype;
    call.peer = peer;
    plan_.calls.push_back(call);
  }

  const CollectiveContext& context_;
  NcclPlan plan_;
};

absl::StatusOr<NcclPlan> PlanBroadcast(const CollectiveContext& context) {
  const CollInstanceParams& instance = *context.params->instance;
  NcclPlan plan;
  const auto num_elements = static_cast<size_t>(instance.shape.num_elements());
  if (num_elements == 0) return plan;
  plan.calls = {{.op = NcclOp::kBroadcast,
                 .input = context.input.data(),
                 .output = OutputOf(context),
                 .num_elements = num_elements,
                 .dtype = instance.dtype,
                 .peer = instance.root}};
  return plan;
}

// Plans a broadcast per block, all at once, for blocks of different sizes.
void PlanUneven(Planner& planner) {
  const CollectiveContext& context = planner.context();
  std::byte* next = OutputOf(context);
  for (int root = 0; root < planner.size(); ++root) {
    const Block block = planner.Take(root, root, &next);
    if (block.num_elements == 0) continue;
    planner.plan().calls.push_back(
        {.op = NcclOp::kBroadcast,
         .input = root == context.rank() ? context.input.data() : nullptr,
         .output = block.begin,
         .num_elements = block.num_elements,
         .dtype = planner.instance().dtype,
         .peer = root});
  }
}

void PlanToRoot(Planner& planner, const Block& own) {
  const CollectiveContext& context = planner.context();
  const int root = planner.instance().root;
  planner.AppendSend(root, own);
  if (context.rank() != root) return;
  std::byte* next = OutputOf(context);
  for (int from = 0; from < planner.size(); ++from) {
    const Block block = planner.Take(from, root, &next);
    if (from == root) planner.AppendOwn(own, block);
    planner.AppendRecv(from, block);
  }
}

absl::StatusOr<NcclPlan> PlanGather(const CollectiveContext& context) {
  Planner planner(context);
  const Block own = {
      .begin = const_cast<std::byte*>(context.input.data()),
      .num_elements = static_cast<size_t>(context.input.num_elements())};
  if (planner.instance().type == CollectiveType::kGather) {
    PlanToRoot(planner, own);
  } else if (!planner.instance().rows.empty()) {
    PlanUneven(planner);
  } else if (own.num_elements > 0) {
    planner.plan().calls = {{.op = NcclOp::kAllGather,
                             .input = own.begin,
                             .output = OutputOf(context),
                             .num_elements = own.num_elements,
                             .dtype = planner.instance().dtype}};
  }
  return std::move(planner.plan());
}

// Plans sends of every rank to every rank, all at once.
absl::StatusOr<NcclPlan> PlanAllToAll(const CollectiveContext& context) {
  const int rank = context.rank();
  Planner planner(context);
  ASSIGN_OR_RETURN(std::byte * next_sent, planner.SendableInput());
  std::byte* next_received = OutputOf(context);
  for (int peer = 0; peer < planner.size(); ++peer) {
    const Block sent = planner.Take(rank, peer, &next_sent);
    const Block received = planner.Take(peer, rank, &next_received);
    if (peer == rank) planner.AppendOwn(sent, received);
    planner.AppendSend(peer, sent);
    planner.AppendRecv(peer, received);
  }
  return std::move(planner.plan());
}

absl::StatusOr<NcclPlan> PlanPermute(const CollectiveContext& context) {
  const int rank = context.rank();
  const std::vector<int>& targets = context.params->instance->permutation;
  const int to = targets[rank];
  const int from = static_cast<int>(
      std::find(targets.begin(), targets.end(), rank) - targets.begin());
  Planner planner(context);
  ASSIGN_OR_RETURN(const auto input, planner.SendableInput());
  const auto num_elements = static_cast<size_t>(context.input.num_elements());
  const Block sent = {input, num_elements};
  const Block received = {OutputOf(context), num_elements};
  if (to == rank) planner.AppendOwn(sent, received);
  planner.AppendSend(to, sent);
  planner.AppendRecv(from, received);
  return std::move(planner.plan());
}

ImplementationTraits UnevenTraits(std::string summary,
                                  std::vector<CollectiveType> collectives) {
  ImplementationTraits traits =
      NcclTraits(std::move(summary), std::move(collectives));
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(NcclBroadcast,
                    Implemented<NcclPlanned<PlanBroadcast>>(NcclTraits(
                        "ncclBroadcast", {CollectiveType::kBroadcast})));

REGISTER_COLLECTIVE(
    NcclGather,
    Implemented<NcclPlanned<PlanGather>>(UnevenTraits(
        "ncclAllGather, broadcasts where blocks differ, and sends to the root",
        {CollectiveType::kAllGather, CollectiveType::kGather})));

REGISTER_COLLECTIVE(NcclAllToAll,
                    Implemented<NcclPlanned<PlanAllToAll>>(
                        UnevenTraits("ncclSend and ncclRecv of all pairs",
                                     {CollectiveType::kAllToAll})));

REGISTER_COLLECTIVE(NcclPermute,
                    Implemented<NcclPlanned<PlanPermute>>(
                        NcclTraits("ncclSend to the target and ncclRecv",
                                   {CollectiveType::kPermute})));

}  // namespace
}  // namespace tutti
