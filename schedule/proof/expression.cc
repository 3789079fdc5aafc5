#include "schedule/proof/expression.h"

#include <algorithm>
#include <vector>

namespace tutti {

ExpressionId ExpressionGraph::Input(int rank, int chunk) {
  return Add({.kind = ExpressionKind::kInput, .rank = rank, .chunk = chunk},
             {});
}

ExpressionId ExpressionGraph::Reduce(absl::Span<const ExpressionId> operands) {
  const bool has_finish =
      std::any_of(operands.begin(), operands.end(),
                  [&](ExpressionId id) { return expressions_[id].has_finish; });
  return Add({.kind = ExpressionKind::kReduce, .has_finish = has_finish},
             operands);
}

ExpressionId ExpressionGraph::Finish(ExpressionId operand) {
  return Add({.kind = ExpressionKind::kFinish, .has_finish = true}, {operand});
}

ExpressionId ExpressionGraph::Add(Expression expression,
                                  absl::Span<const ExpressionId> operands) {
  expression.first_operand = static_cast<int64_t>(operands_.size());
  expression.num_operands = static_cast<int32_t>(operands.size());
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  expressions_.push_back(expression);
  return static_cast<ExpressionId>(expressions_.size()) - 1;
}

std::vector<ExpressionId> ExpressionGraph::Leaves(ExpressionId id,
                                                  size_t limit) const {
  std::vector<ExpressionId> leaves;
  std::vector<ExpressionId> pending = {id};
  while (!pending.empty() && leaves.size() < limit) {
    const ExpressionId next = pending.back();
    pending.pop_back();
    if (expressions_[next].kind == ExpressionKind::kInput) {
      leaves.push_back(next);
    }
    const auto made_of = operands(next);
    pending.insert(pending.end(), made_of.rbegin(), made_of.rend());
  }
  return leaves;
}

}  // namespace tutti
