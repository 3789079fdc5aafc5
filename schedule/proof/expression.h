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

// An entry of an ExpressionGraph. Operands have smaller ids than the
// expressions made of them.
using ExpressionId = int32_t;
inline constexpr ExpressionId kUndefined = -1;

enum class ExpressionKind : uint8_t {
  kInput,   // Chunk `chunk` of what rank `rank` contributes.
  kReduce,  // Its operands reduced in their order, by one step.
  kFinish,  // The final op applied to its operand.
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kInput;
  int32_t rank = 0;
  int32_t chunk = 0;
  int32_t num_operands = 0;
  int64_t first_operand = 0;  // In the graph.
  bool has_finish = false;    // It or what it is made of is a kFinish.
};

// How values came about, as a graph that only grows: what a schedule computes,
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

  // The kInput expressions that `id` is made of, left to right, each as often
  // as it is used; no more than the first `limit`.
  std::vector<ExpressionId> Leaves(ExpressionId id, size_t limit) const;

 private:
  ExpressionId Add(Expression expression,
                   absl::Span<const ExpressionId> operands);

  std::vector<Expression> expressions_;
  std::vector<ExpressionId> operands_;  // Of all, in order.
};

// Computes values of expressions, each once and without recursion, however deep
// the graph. `Functor` says what the expressions mean:
//   Value Input(int rank, int chunk);
//   Value Reduce(absl::Span<const Value* const> operands);
//   Value Finish(const Value& operand);
// The graph must outlive the evaluator and not grow meanwhile.
template <typename Functor>
class Evaluator {
 public:
  using Value = decltype(std::declval<Functor&>().Input(0, 0));

  Evaluator(const ExpressionGraph& graph, Functor functor)
      : graph_(graph), functor_(std::move(functor)), values_(graph.size()) {}

  // Valid as long as the evaluator. REQUIRES: `id` is in the graph.
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
  // True if an operand has to be computed first.
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
