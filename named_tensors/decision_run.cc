#include "named_tensors/decision_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "framework/reduce/neutral_element.h"
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
  Tensor output;        // Result of the request; may be set before it runs.
  Tensor parts;         // Equal parts, one after the other, for a run in parts.
  Tensor parts_output;  // Parts that the run writes.

  PendingTensor& first() const { return *tensors.front(); }
  Device& device() const { return *group.device; }
  size_t part_bytes() const {
    return static_cast<size_t>(decision.fused_elements()) *
           SizeOf(first().request.dtype);
  }
  std::byte* PartOf(int index) {
    return parts.mutable_data() + static_cast<size_t>(index) * part_bytes();
  }
  size_t RowsBytes(int64_t num_rows) const {
    const TensorRequest& request = first().request;
    return static_cast<size_t>(
               request.shape.WithFirstDim(num_rows)->num_elements()) *
           SizeOf(request.dtype);
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
  if (Reduces(TypeOf(op))) {
    request.merge_op = run.first().tensor.merge_op;
    request.final_op = run.first().tensor.final_op;
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

// Rows from each rank, for a collective whose output is sized by all ranks.
std::vector<int64_t> RowsFromRanks(const Run& run) {
  const auto& rows = run.decision.rows();
  if (!rows.empty()) return {rows.begin(), rows.end()};
  return BalancedRows(run.first().request.shape.dim(0), run.group.num_ranks);
}

// Ends the run, and returns an output that was not given. Drops buffers and
// device first: `done` may destroy what they need, and others keep the run.
void Finish(const RunPtr& run, absl::Status status) {
  const NamedTensor& tensor = run->first().tensor;
  if (status.ok() && IsSizedByAll(run->first().request.type)) {
    *tensor.output = std::move(run->output);
    if (tensor.received_rows != nullptr) {
      *tensor.received_rows = RowsFromRanks(*run);
    }
  }
  run->output = run->parts = run->parts_output = Tensor();
  run->tensors.clear();
  run->group = DecisionGroup();
  std::move(run->done)(std::move(status));
}

StatusCallback FinishOf(const RunPtr& run) {
  return [run](absl::Status status) { Finish(run, std::move(status)); };
}

// The collective of the request, with equally many rows for all ranks.
CollectiveOp EvenOp(const Run& run) {
  const TensorRequest& request = run.first().request;
  switch (request.type) {
    case CollectiveType::kAllGather:
      return AllGather{};
    case CollectiveType::kBroadcast:
      return Broadcast{.is_source = request.root == run.group.task};
    case CollectiveType::kReduceScatter:
      return ReduceScatter{};
    case CollectiveType::kAllToAll:
      return AllToAll{};
    default:
      return AllReduce{};
  }
}

std::vector<int64_t> ElementsOf(const Run& run, std::vector<int64_t> rows) {
  const int64_t row = RowElements(run.first().request.shape);
  for (int64_t& count : rows) count *= row;
  return rows;
}

// Runs a collective whose output is sized by all ranks, on the input itself.
void RunSized(const RunPtr& run) {
  const auto& rows = run->decision.rows();
  CollectiveOp op = EvenOp(*run);
  if (absl::c_any_of(rows, [&](int64_t from) { return from != rows[0]; })) {
    op = AllGather{.uneven = true, .rows = {rows.begin(), rows.end()}};
  }
  Execute<Tensor>(run,
                  RequestOf(*run, std::move(op), run->first().request.shape),
                  run->first().tensor.input, &run->output, FinishOf(run));
}

// Runs an all-to-all that lists its rows, in the shape of a vector: all sizes
// share one instance.
void RunByRows(const RunPtr& run) {
  const TensorRequest& request = run->first().request;
  const auto& rows = run->decision.rows();
  const AllToAll op = {
      .send_rows = ElementsOf(*run, RowsToRanks(request, run->group.num_ranks)),
      .recv_rows = ElementsOf(*run, {rows.begin(), rows.end()})};
  const auto shape = TensorShape::Vector(request.shape.num_elements());
  Execute(run, RequestOf(*run, op, shape),
          run->first().tensor.input.Reshaped(shape), &run->output,
          [run](absl::Status status) {
            if (status.ok()) {
              const auto& rows = run->decision.rows();
              run->output = *run->output.Reshaped(
                  *run->first().request.shape.WithFirstDim(
                      std::accumulate(rows.begin(), rows.end(), int64_t{0})));
            }
            Finish(run, std::move(status));
          });
}

// Runs another collective in the shape of a vector: all tensors of a size share
// one instance. REQUIRES: output and size are checked.
void RunAsVector(const RunPtr& run) {
  const NamedTensor& tensor = run->first().tensor;
  const auto shape =
      TensorShape::Vector(run->first().request.shape.num_elements());
  absl::StatusOr<Tensor> input = Tensor();  // Only a broadcast's root has one.
  if (tensor.input.is_set()) input = tensor.input.Reshaped(shape);
  run->output = *tensor.output->Reshaped(
      TensorShape::Vector(tensor.output->num_elements()));
  CollectiveOp op = EvenOp(*run);
  if (OutputIsOwnBlock(TypeOf(op))) {
    auto rows =
        BalancedRows(run->first().request.shape.dim(0), run->group.num_ranks);
    if (rows.back() != rows.front()) {
      op = ReduceScatter{.uneven = true,
                         .rows = ElementsOf(*run, std::move(rows))};
    }
  }
  Execute(run, RequestOf(*run, std::move(op), shape), std::move(input),
          &run->output, FinishOf(run));
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
          SegmentsOf(*run), /*output=*/nullptr, FinishOf(run));
}

// --- Runs in equal parts -----------------------------------------------------

// Piece of a tensor, at the beginning of a part.
struct Piece {
  int part = 0;
  size_t num_bytes = 0;
};

template <typename Rows>
std::vector<Piece> PiecesOf(const Run& run, const Rows& rows_of_parts) {
  std::vector<Piece> pieces;
  for (const int64_t rows : rows_of_parts) {
    pieces.push_back({static_cast<int>(pieces.size()), run.RowsBytes(rows)});
  }
  return pieces;
}

// Pieces of the input and the output, one after the other.
std::vector<Piece> InputPieces(const Run& run) {
  const TensorRequest& request = run.first().request;
  const size_t num_bytes = run.first().tensor.input.size_bytes();
  if (InputIsOwnBlock(request.type)) return {{run.group.rank, num_bytes}};
  if (HasRankBlocks(request.type)) {
    return PiecesOf(run,
                    BalancedRows(request.shape.dim(0), run.group.num_ranks));
  }
  if (!HasInput(request.type, run.group.task, request.root)) return {};
  return {{0, num_bytes}};
}
std::vector<Piece> OutputPieces(const Run& run) {
  const CollectiveType type = run.first().request.type;
  if (IsSizedByAll(type)) return PiecesOf(run, run.decision.rows());
  return {
      {OutputIsOwnBlock(type) ? run.group.rank : 0, run.output.size_bytes()}};
}

// Parts of all ranks, or this rank's own.
absl::StatusOr<Tensor> PartsFor(const Run& run, bool is_own) {
  if (!is_own) return run.parts;
  return run.parts.Slice(run.group.rank, run.group.rank + 1);
}

int NumParts(const Run& run) {
  return HasRankBlocks(run.first().request.type) ? run.group.num_ranks : 1;
}

absl::Status AllocateParts(Run& run) {
  const TensorRequest& request = run.first().request;
  if (IsSizedByAll(request.type)) {
    const auto& rows = run.decision.rows();
    ASSIGN_OR_RETURN(const auto shape,
                     request.shape.WithFirstDim(std::accumulate(
                         rows.begin(), rows.end(), int64_t{0})));
    ASSIGN_OR_RETURN(run.output, run.device().Allocate(request.dtype, shape));
  } else {
    run.output = *run.first().tensor.output;
  }
  ASSIGN_OR_RETURN(
      const auto parts_shape,
      TensorShape::Create({NumParts(run), run.decision.fused_elements()}));
  ASSIGN_OR_RETURN(run.parts,
                   run.device().Allocate(request.dtype, parts_shape));
  return absl::OkStatus();
}

void Copy(const Run& run, absl::FunctionRef<absl::Status(CopyPiece)> copies,
          StatusCallback done) {
  CopyOnDevice(run.device(), *run.group.executor->environment().clock, copies,
               std::move(done));
}

// Copies the input to the parts. The rest of each part is sent, too, and
// therefore cleared.
absl::Status CopyInput(Run& run, CopyPiece copy) {
  const std::byte* from = run.first().tensor.input.data();
  for (const Piece& piece : InputPieces(run)) {
    std::byte* const part = run.PartOf(piece.part);
    if (run.device().has_host_memory()) {
      std::memset(part + piece.num_bytes, 0,
                  run.part_bytes() - piece.num_bytes);
    }
    RETURN_IF_ERROR(copy(part, from, piece.num_bytes));
    from += piece.num_bytes;
  }
  return absl::OkStatus();
}

absl::Status CopyOutput(Run& run, CopyPiece copy) {
  std::byte* into = run.output.mutable_data();
  for (const Piece& piece : OutputPieces(run)) {
    RETURN_IF_ERROR(copy(into, run.PartOf(piece.part), piece.num_bytes));
    into += piece.num_bytes;
  }
  return absl::OkStatus();
}

void RunParts(const RunPtr& run, const absl::Status& ready) {
  const CollectiveType type = run->first().request.type;
  const int64_t num_parts = InputIsOwnBlock(type) ? 1 : NumParts(*run);
  auto input = ready.ok() ? PartsFor(*run, InputIsOwnBlock(type)) : ready;
  if (ready.ok()) {
    run->parts_output = *PartsFor(*run, OutputIsOwnBlock(type));
  }
  Execute(
      run,
      RequestOf(
          *run, EvenOp(*run),
          *TensorShape::Create({num_parts, run->decision.fused_elements()})),
      std::move(input), &run->parts_output, [run](absl::Status status) {
        if (!status.ok()) return Finish(run, std::move(status));
        run->group.executor->environment().queue->Schedule([run] {
          Copy(
              *run, [&run](CopyPiece copy) { return CopyOutput(*run, copy); },
              FinishOf(run));
        });
      });
}

// Runs the collective on equally long parts, and cuts the result out of them.
void RunInParts(const RunPtr& run) {
  const absl::Status status = AllocateParts(*run);
  if (!status.ok()) return RunParts(run, status);
  Copy(
      *run, [&run](CopyPiece copy) { return CopyInput(*run, copy); },
      [run](const absl::Status& ready) { RunParts(run, ready); });
}

void RunWithTensors(const RunPtr& run) {
  const proto::Decision& decision = run->decision;
  const CollectiveType type = run->first().request.type;
  if (decision.fused_elements() == 0) {
    if (!IsSizedByAll(type)) return RunAsVector(run);
    const bool by_rows = ExchangesBlocks(type) && !decision.rows().empty();
    return by_rows ? RunByRows(run) : RunSized(run);
  }
  const bool is_fused = type == CollectiveType::kAllReduce;
  run->group.executor->environment().queue->Schedule(
      [run, is_fused] { is_fused ? ReduceTogether(run) : RunInParts(run); });
}

// --- Ranks that have joined --------------------------------------------------

bool IsStandIn(const Run& run) { return run.first().request.name.empty(); }

// Fills run.output with the neutral element.
void FillNeutral(const RunPtr& run, StatusCallback done) {
  constexpr int64_t kPatternElements = 4096;
  auto pattern = Tensor::Allocate(run->output.dtype(),
                                  TensorShape::Vector(kPatternElements));
  absl::Status status = pattern.status();
  if (status.ok()) {
    status =
        FillWithNeutral(run->first().tensor.merge_op.kind(), pattern->dtype(),
                        pattern->mutable_data(), kPatternElements);
  }
  if (!status.ok()) return std::move(done)(std::move(status));
  FillOnDevice(run->device(), *run->group.executor->environment().clock,
               {pattern->data(), pattern->size_bytes()}, run->output,
               std::move(done));
}

// Takes part, with no rows of its own, as the root's peer, or with the neutral
// element, which the result replaces.
void RunStandIn(const RunPtr& run) {
  const TensorRequest& request = run->first().request;
  const CollectiveType type = request.type;
  const bool reduces = Reduces(type);
  const int64_t length =
      std::max(run->decision.fused_elements(), request.shape.num_elements());
  const TensorShape shape =
      reduces ? TensorShape::Vector(length) : request.shape;
  auto memory = run->device().Allocate(request.dtype, shape);
  const auto execute = [run, shape](absl::StatusOr<Tensor> input) {
    Execute(run, RequestOf(*run, EvenOp(*run), shape), std::move(input),
            &run->output, FinishOf(run));
  };
  if (!memory.ok()) return execute(memory.status());
  if (reduces) {
    run->output = *std::move(memory);
    return FillNeutral(run, [run, execute](const absl::Status& ready) {
      ready.ok() ? execute(run->output) : execute(ready);
    });
  }
  NamedTensor& tensor = run->first().tensor;
  (HasRoot(type) ? *tensor.output : tensor.input) = *std::move(memory);
  RunWithTensors(run);
}

}  // namespace

void RunDecision(DecisionGroup group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done) {
  const auto run = std::make_shared<Run>(
      Run{std::move(group), decision, std::move(tensors), std::move(done)});
  if (IsStandIn(*run)) {
    run->group.executor->environment().queue->Schedule(
        [run] { RunStandIn(run); });
  } else {
    RunWithTensors(run);
  }
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
