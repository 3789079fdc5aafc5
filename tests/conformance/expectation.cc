#include "tests/conformance/expectation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "framework/reduce/reduction_reference_testing.h"
#include "schedule/chunk_map.h"
#include "schedule/proof/expression_testing.h"
#include "schedule/proof/verifier.h"
#include "tutti/reduction.h"

namespace tutti::conformance {
namespace {

int64_t NumElements(const Case& c, size_t num_bytes) {
  return static_cast<int64_t>(num_bytes / SizeOf(c.dtype));
}

bool IsDividedInOnePass(const Case& c) {
  return IsMeanOfIntegers(c.dtype, c.merge_op, c.final_op) ||
         (c.final_op == FinalOp::DivideByGroupSize() && IsFloating(c.dtype) &&
          !c.merge_op.is_custom());
}

// Remembers what it found: cases that differ in size alone sum alike.
absl::StatusOr<const SymbolicRun*> RunOf(const Algorithm& algorithm,
                                         const Case& c) {
  static auto* const runs = new std::map<std::string, SymbolicRun>();
  const GroupLayout layout = LayoutOf(c);
  const VerifyCase request = {
      .layout = layout,
      .type = c.type,
      .root = c.root,
      .permutation = c.permutation,
      .subdiv_offsets = SubdivOffsetsOf(algorithm, c),
      .blocks_differ = !c.rows.empty(),
      .in_place = c.in_place,
  };
  const std::string key =
      absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(&algorithm)),
                   c.deals_ranks ? " dealt " : " ", ToString(request));
  const auto found = runs->find(key);
  if (found != runs->end()) return &found->second;
  auto run = Symbolically(algorithm, request);
  if (!run.ok()) return run.status();
  return &runs->emplace(key, *std::move(run)).first->second;
}

// Results of reductions of the ranks' inputs, by scalar arithmetic.

// into = left (+) right. Errors: those of a custom op.
void Merge(const Case& c, absl::Span<const std::byte> left,
           absl::Span<const std::byte> right, Bytes* into) {
  const auto kind = ParseReductionKind(c.merge_op.name());
  if (kind.ok()) {
    ReferenceReduce(*kind, c.dtype, left.data(), right.data(), into->data(),
                    NumElements(c, left.size()));
  } else {
    c.merge_op
        .Apply(c.dtype, left.data(), right.data(), into->data(),
               NumElements(c, left.size()))
        .IgnoreError();
  }
}

// into = (operands[0] (+) operands[1] (+) ..., in order) / divisor, with
// built-in ops rounded once. At least two; `into` is none of them. REQUIRES:
// `divisor` is 1 for merge ops of the caller. Errors: as Merge().
void MergeMany(const Case& c,
               absl::Span<const absl::Span<const std::byte>> operands,
               int64_t divisor, Bytes* into) {
  const auto kind = ParseReductionKind(c.merge_op.name());
  if (!kind.ok()) {
    Merge(c, operands[0], operands[1], into);
    for (const auto& operand : operands.subspan(2)) {
      Merge(c, *into, operand, into);
    }
    return;
  }
  std::vector<const uint8_t*> inputs;
  for (const auto& operand : operands) {
    inputs.push_back(reinterpret_cast<const uint8_t*>(operand.data()));
  }
  ReferenceReduceMany(*kind, c.dtype, inputs, into->data(),
                      NumElements(c, into->size()), divisor);
}

// Applies the case's final op, in a step of its own.
void Finish(const Case& c, Bytes* values) {
  const int64_t num_elements = NumElements(c, values->size());
  if (c.final_op == FinalOp::DivideByGroupSize()) {
    ReferenceDivideBy(c.dtype, values->data(), num_elements, c.grid.size());
  } else {
    c.final_op.Apply(c.dtype, values->data(), num_elements, c.grid.size())
        .IgnoreError();
  }
}

// The whole vectors of the first inputs, by their number, reduced in rank
// order; empty where no rank gets them. What is exact has this result in any
// order.
std::vector<Bytes> FoldedInRankOrder(const Case& c,
                                     absl::Span<const Bytes> inputs) {
  std::vector<Bytes> folded(inputs.size() + 1);
  Bytes sum = inputs[0];
  if (IsMeanOfIntegers(c.dtype, c.merge_op, c.final_op)) {
    std::vector<absl::Span<const std::byte>> operands(inputs.begin(),
                                                      inputs.end());
    folded.back() = sum;
    MergeMany(c, operands, c.grid.size(), &folded.back());
    return folded;
  }
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    if (rank > 0) Merge(c, sum, inputs[rank], &sum);
    if (IsScan(c.type)) folded[rank + 1] = sum;
  }
  if (IsScan(c.type)) return folded;
  Finish(c, &sum);
  folded.back() = std::move(sum);
  return folded;
}

// Arithmetic of expressions, for an Evaluator.
class ChunkArithmetic {
 public:
  struct Value {
    Bytes computed;
    absl::Span<const std::byte> bytes;  // Of `computed` or of an input.
    std::vector<absl::Span<const std::byte>> operands;  // If it was reduced.
  };

  ChunkArithmetic(const Case& c, absl::Span<const Bytes> inputs, int num_chunks)
      : case_(c), inputs_(inputs), num_chunks_(num_chunks) {}

  Value Input(int rank, int chunk) const {
    const Range range = RangeOf(chunk);
    const size_t size = SizeOf(case_.dtype);
    return {{},
            absl::MakeConstSpan(inputs_[rank])
                .subspan(range.begin * size, range.size * size),
            {}};
  }
  Value Reduce(absl::Span<const Value* const> operands) const {
    std::vector<absl::Span<const std::byte>> inputs;
    for (const Value* operand : operands) inputs.push_back(operand->bytes);
    Bytes sum(inputs[0].size());
    MergeMany(case_, inputs, /*divisor=*/1, &sum);
    Value value = Computed(std::move(sum));
    value.operands = std::move(inputs);
    return value;
  }
  // The step that reduces last also finishes.
  Value Finish(const Value& operand) const {
    Bytes values(operand.bytes.begin(), operand.bytes.end());
    if (!operand.operands.empty() && IsDividedInOnePass(case_)) {
      MergeMany(case_, operand.operands, case_.grid.size(), &values);
    } else {
      conformance::Finish(case_, &values);
    }
    return Computed(std::move(values));
  }

 private:
  static Value Computed(Bytes bytes) {
    Value value{std::move(bytes), {}, {}};
    value.bytes = value.computed;
    return value;
  }

  Range RangeOf(int chunk) const {
    if (!HasBlocks(case_.type)) {
      return Cut(InputElements(case_, 0), num_chunks_, chunk);
    }
    const int pieces = num_chunks_ / case_.grid.size();
    const int block = chunk / pieces;
    Range range =
        Cut(BlockElements(case_, block, block), pieces, chunk % pieces);
    range.begin += OwnBlockBegin(case_, block);
    return range;
  }

  const Case& case_;
  const absl::Span<const Bytes> inputs_;
  const int num_chunks_;
};

// Errors: INVALID_ARGUMENT if the schedules do not run (verifier.h).
absl::StatusOr<ScheduledSums> SumAsScheduled(const Algorithm& algorithm,
                                             const Case& c,
                                             absl::Span<const Bytes> inputs) {
  const auto run = RunOf(algorithm, c);
  if (!run.ok()) return run.status();
  ScheduledSums sums;
  const auto num_chunks = static_cast<int>((*run)->outputs[0].size());
  Evaluator evaluate((*run)->expressions,
                     ChunkArithmetic(c, inputs, num_chunks));
  for (const std::vector<ExpressionId>& chunks : (*run)->outputs) {
    std::vector<ExpressionId>& output = sums.outputs.emplace_back();
    for (const ExpressionId id : chunks) {
      if (id == kUndefined) continue;  // Another rank's.
      output.push_back(id);
      if (sums.values.contains(id)) continue;
      const auto& bytes = evaluate(id).bytes;
      sums.values.emplace(id, Bytes(bytes.begin(), bytes.end()));
    }
  }
  return sums;
}

// Elements [begin, begin + size).
absl::Span<const std::byte> Part(const Case& c, const Bytes& bytes,
                                 int64_t begin, int64_t size) {
  const size_t element = SizeOf(c.dtype);
  return absl::MakeConstSpan(bytes).subspan(begin * element, size * element);
}

// Whether rounding makes the order of summation matter.
bool DependsOnOrder(const Case& c) {
  const auto kind = ParseReductionKind(c.merge_op.name());
  return (IsFloating(c.dtype) || IsComplex(c.dtype)) && kind.ok() &&
         (*kind == ReductionKind::kSum || *kind == ReductionKind::kProd);
}

}  // namespace

std::vector<int> SubdivOffsetsOf(const Algorithm& algorithm, const Case& c) {
  if (!algorithm.traits.supports_subdivisions) return {};
  if (c.subdivisions != Subdivisions::kAuto) {
    return SubdivOffsets(c.subdivisions);
  }
  const GroupLayout layout = LayoutOf(c);
  const int64_t num_elements =
      std::max(InputElements(c, c.root), OutputElements(c, c.root));
  return algorithm.subdivide(
      {.layout = layout,
       .bytes = num_elements * static_cast<int64_t>(SizeOf(c.dtype))});
}

std::shared_ptr<const Inputs> MakeInputs(
    const ImplementationUnderTest& under_test, const Case& c, uint64_t seed) {
  const Rounding rounding =
      under_test.algorithm == nullptr ? Rounding::kNever : Rounding::kAny;
  auto inputs = std::make_shared<Inputs>();
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    inputs->push_back(RandomElements(c.dtype, InputElements(c, rank), rounding,
                                     seed + static_cast<uint64_t>(rank)));
  }
  return inputs;
}

absl::StatusOr<std::shared_ptr<const Expectation>> Expectation::Create(
    const ImplementationUnderTest& under_test, const Case& c,
    std::shared_ptr<const Inputs> inputs) {
  const std::shared_ptr<Expectation> made(new Expectation(std::move(inputs)));
  made->outputs_.resize(c.grid.size());
  if (Reduces(c.type)) {
    absl::Status status = made->SetReduced(under_test, c);
    if (!status.ok()) return status;
    return made;
  }
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    if (HasOutput(c.type, rank, c.root)) made->SetMoved(c, rank);
  }
  return made;
}

absl::Status Expectation::SetReduced(const ImplementationUnderTest& under_test,
                                     const Case& c) {
  if (c.has_factors) factored_ = *inputs_;
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    const std::optional<double> factor = FactorOf(c, rank);
    if (!factor.has_value()) continue;
    Bytes& values = factored_[static_cast<size_t>(rank)];
    ReferenceMultiplyBy(c.dtype, values.data(), values.size() / SizeOf(c.dtype),
                        *factor);
  }
  const Inputs& inputs = c.has_factors ? factored_ : *inputs_;
  if (DependsOnOrder(c) && under_test.algorithm != nullptr) {
    auto sums = SumAsScheduled(*under_test.algorithm, c, inputs);
    if (!sums.ok()) return sums.status();
    sums_ = *std::move(sums);
    for (int rank = 0; rank < c.grid.size(); ++rank) {
      for (const ExpressionId id : sums_.outputs[rank]) {
        outputs_[rank].push_back(sums_.values.at(id));
      }
    }
    return absl::OkStatus();
  }
  folded_ = FoldedInRankOrder(c, inputs);
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    if (!HasOutput(c.type, rank, c.root)) continue;
    const int64_t size = OutputElements(c, rank);
    const int64_t begin = HasBlocks(c.type) ? OwnBlockBegin(c, rank) : 0;
    const Bytes& whole = folded_[static_cast<size_t>(NumMerged(c, rank))];
    outputs_[rank] = {Part(c, whole, begin, size)};
  }
  return absl::OkStatus();
}

void Expectation::SetMoved(const Case& c, int rank) {
  std::vector<absl::Span<const std::byte>>& output = outputs_[rank];
  switch (c.type) {
    case CollectiveType::kBroadcast:
      output = {input(c.root)};
      break;
    case CollectiveType::kScatter:
      output = {Part(c, input(c.root), OwnBlockBegin(c, rank),
                     OutputElements(c, rank))};
      break;
    case CollectiveType::kPermute: {
      const auto sender =
          std::find(c.permutation.begin(), c.permutation.end(), rank);
      output = {input(static_cast<int>(sender - c.permutation.begin()))};
      break;
    }
    case CollectiveType::kAllToAll:
      for (int from = 0; from < c.grid.size(); ++from) {
        int64_t begin = 0;
        for (int to = 0; to < rank; ++to) begin += BlockElements(c, from, to);
        output.push_back(
            Part(c, input(from), begin, BlockElements(c, from, rank)));
      }
      break;
    default:  // Gathers.
      output.assign(inputs_->begin(), inputs_->end());
  }
}

}  // namespace tutti::conformance
