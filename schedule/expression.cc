#include "schedule/expression.h"

#include <vector>

namespace tutti {

ExpressionId ExpressionGraph::Input(int rank, int chunk) {
  return Add({.kind = ExpressionKind::kInput, .rank = rank, .chunk = chunk});
}

ExpressionId ExpressionGraph::Reduce(ExpressionId left, ExpressionId right) {
  return Add({.kind = ExpressionKind::kReduce,
              .left = left,
              .right = right,
              .has_finish = expressions_[left].has_finish ||
                            expressions_[right].has_finish});
}

ExpressionId ExpressionGraph::Finish(ExpressionId operand) {
  return Add(
      {.kind = ExpressionKind::kFinish, .left = operand, .has_finish = true});
}

ExpressionId ExpressionGraph::Add(const Expression& expression) {
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
    const Expression& expression = expressions_[next];
    if (expression.kind == ExpressionKind::kInput) leaves.push_back(next);
    if (expression.right != kUndefined) pending.push_back(expression.right);
    if (expression.left != kUndefined) pending.push_back(expression.left);
  }
  return leaves;
}

}  // namespace tutti
