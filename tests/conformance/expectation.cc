#include "tests/conformance/expectation.h"

#include <algorithm>
#include <utility>

#include "tutti/reduction.h"

namespace tutti::conformance {
namespace {

// Elements [begin, begin + size).
absl::Span<const std::byte> Part(const Case& c, const Bytes& bytes,
                                 int64_t begin, int64_t size) {
  const size_t element = SizeOf(c.dtype);
  return absl::MakeConstSpan(bytes).subspan(begin * element, size * element);
}

// Whether rounding makes the order of summation matter.
bool DependsOnOrder(const Case& c) {
  const auto kind = ParseReductionKind(c.merge_op.name());
  return IsFloating(c.dtype) && kind.ok() &&
         (*kind == ReductionKind::kSum || *kind == ReductionKind::kProd);
}

}  // namespace

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
  if (DependsOnOrder(c) && under_test.algorithm != nullptr) {
    auto sums = SumAsScheduled(*under_test.algorithm, c, *inputs_);
    if (!sums.ok()) return sums.status();
    sums_ = *std::move(sums);
    for (int rank = 0; rank < c.grid.size(); ++rank) {
      for (const ExpressionId id : sums_.outputs[rank]) {
        outputs_[rank].push_back(sums_.values.at(id));
      }
    }
    return absl::OkStatus();
  }
  folded_ = FoldedInRankOrder(c, *inputs_);
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    if (!HasOutput(c.type, rank, c.root)) continue;
    const int64_t size = OutputElements(c, rank);
    const int64_t begin = HasBlocks(c.type) ? rank * size : 0;
    outputs_[rank] = {Part(c, folded_, begin, size)};
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
      output = {Part(c, input(c.root), rank * OutputElements(c, rank),
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
