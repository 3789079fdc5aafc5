#ifndef TUTTI_SCHEDULE_PROOF_EXPRESSION_TESTING_H_
#define TUTTI_SCHEDULE_PROOF_EXPRESSION_TESTING_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schedule/proof/expression.h"

namespace tutti {

// Computes values of expressions, each value once and without recursion, at any
// depth of the graph. `Functor` gives the expressions their meaning:
//   Value Input(int rank, int chunk);
//   Value Reduce(absl::Span<const Value* const> operands);
//   Value Finish(const Value& operand);
// The graph outlives the evaluator and does not grow during its life.
template <typename Functor>
class Evaluator {
 public:
  using Value = decltype(std::declval<Functor&>().Input(0, 0));

  Evaluator(const ExpressionGraph& graph, Functor functor)
      : graph_(graph), functor_(std::move(functor)), values_(graph.size()) {}

  // Returns the value of `id`, valid as long as the evaluator. REQUIRES: `id`
  // is in the graph.
  const Value& operator()(ExpressionId id) {
    pending_.push_back(id);
    while (!pending_.empty()) {
      const ExpressionId next = pending_.back();
      if (PushOperands(next)) continue;
      pending_.pop_back();
      if (!values_[next].has_value()) values_[next] = Apply(next);
    }
    return *values_[id];
  }

 private:
  // Returns true if an operand has to be computed first.
  bool PushOperands(ExpressionId id) {
    const size_t before = pending_.size();
    for (ExpressionId operand : graph_.operands(id)) {
      if (!values_[operand].has_value()) pending_.push_back(operand);
    }
    return pending_.size() > before;
  }

  Value Apply(ExpressionId id) {
    const Expression& expression = graph_[id];
    if (expression.kind == ExpressionKind::kInput) {
      return functor_.Input(expression.rank, expression.chunk);
    }
    absl::InlinedVector<const Value*, 2> operands;
    for (ExpressionId operand : graph_.operands(id)) {
      operands.push_back(&*values_[operand]);
    }
    return expression.kind == ExpressionKind::kReduce
               ? functor_.Reduce(absl::MakeConstSpan(operands))
               : functor_.Finish(*operands[0]);
  }

  const ExpressionGraph& graph_;
  Functor functor_;
  std::vector<std::optional<Value>> values_;
  std::vector<ExpressionId> pending_;
};

// Writes an expression as text. An Evaluator uses it as its functor.
// "f(0.1+1.1)" is chunk 1 of ranks 0 and 1, reduced and finished.
struct WrittenExpression {
  std::string Input(int rank, int chunk) {
    return absl::StrCat(rank, ".", chunk);
  }
  std::string Reduce(absl::Span<const std::string* const> operands) {
    return absl::StrCat(
        "(", absl::StrJoin(operands, "+", absl::DereferenceFormatter()), ")");
  }
  std::string Finish(const std::string& operand) {
    return absl::StrCat("f", operand);
  }
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_EXPRESSION_TESTING_H_
