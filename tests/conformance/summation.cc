#include "tests/conformance/summation.h"

#include <algorithm>
#include <map>
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
  return c.final_op == FinalOp::DivideByGroupSize() && IsFloating(c.dtype) &&
         !c.merge_op.is_custom();
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
    const int64_t block = BlockElements(case_, 0, 0);
    Range range = Cut(block, pieces, chunk % pieces);
    range.begin += chunk / pieces * block;
    return range;
  }

  const Case& case_;
  const absl::Span<const Bytes> inputs_;
  const int num_chunks_;
};

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

void Finish(const Case& c, Bytes* values) {
  const int64_t num_elements = NumElements(c, values->size());
  if (c.final_op == FinalOp::DivideByGroupSize()) {
    ReferenceDivideBy(c.dtype, values->data(), num_elements, c.grid.size());
  } else {
    c.final_op.Apply(c.dtype, values->data(), num_elements, c.grid.size())
        .IgnoreError();
  }
}

Bytes FoldedInRankOrder(const Case& c, absl::Span<const Bytes> inputs) {
  Bytes sum = inputs[0];
  for (const Bytes& input : inputs.subspan(1)) Merge(c, sum, input, &sum);
  Finish(c, &sum);
  return sum;
}

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

}  // namespace tutti::conformance
