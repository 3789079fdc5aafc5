#ifndef TUTTI_SCHEDULE_PROOF_EXPRESSION_H_
#define TUTTI_SCHEDULE_PROOF_EXPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace tutti {

// Index of an expression in an ExpressionGraph. Operands have smaller ids than
// the expressions made from them.
using ExpressionId = int32_t;
inline constexpr ExpressionId kUndefined = -1;

enum class ExpressionKind : uint8_t {
  kInput,   // Chunk `chunk` of rank `rank`'s input.
  kReduce,  // The operands reduced in order, in one step.
  kFinish,  // The final op applied to the operand.
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kInput;
  int32_t rank = 0;
  int32_t chunk = 0;
  int32_t num_operands = 0;
  int64_t first_operand = 0;  // Index in the graph.
  bool has_finish = false;    // True if it is or contains a kFinish.
};

// Values of a schedule as a graph that only grows: what the schedule computes,
// with the exact order and grouping of its reductions.
class ExpressionGraph {
 public:
  ExpressionId Input(int rank, int chunk);
  ExpressionId Reduce(absl::Span<const ExpressionId> operands);
  ExpressionId Finish(ExpressionId operand);

  size_t size() const { return expressions_.size(); }
  const Expression& operator[](ExpressionId id) const {
    return expressions_[id];
  }
  absl::Span<const ExpressionId> operands(ExpressionId id) const {
    const Expression& made = expressions_[id];
    return absl::MakeConstSpan(operands_).subspan(made.first_operand,
                                                  made.num_operands);
  }

  // Returns the kInput expressions in `id`, from left to right, each as often
  // as it is used; at most the first `limit`.
  std::vector<ExpressionId> Leaves(ExpressionId id, size_t limit) const;

 private:
  ExpressionId Add(Expression expression,
                   absl::Span<const ExpressionId> operands);

  std::vector<Expression> expressions_;
  std::vector<ExpressionId> operands_;  // Operands of all expressions.
};

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

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_EXPRESSION_H_
