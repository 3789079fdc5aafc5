#ifndef TUTTI_SCHEDULE_EXPRESSION_H_
#define TUTTI_SCHEDULE_EXPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tutti {

// An entry of an ExpressionGraph. Operands have smaller ids than the
// expressions made of them.
using ExpressionId = int32_t;
inline constexpr ExpressionId kUndefined = -1;

enum class ExpressionKind : uint8_t {
  kInput,   // Chunk `chunk` of what rank `rank` contributes.
  kReduce,  // left (+) right, in this order.
  kFinish,  // The final op applied to `left`.
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kInput;
  int32_t rank = 0;
  int32_t chunk = 0;
  ExpressionId left = kUndefined;
  ExpressionId right = kUndefined;
  bool has_finish = false;  // It or what it is made of is a kFinish.
};

// How values came about, as a graph that only grows: what a schedule computes,
// with the exact order and grouping of its reductions.
class ExpressionGraph {
 public:
  ExpressionId Input(int rank, int chunk);
  ExpressionId Reduce(ExpressionId left, ExpressionId right);
  ExpressionId Finish(ExpressionId operand);

  size_t size() const { return expressions_.size(); }
  const Expression& operator[](ExpressionId id) const {
    return expressions_[id];
  }

  // The kInput expressions that `id` is made of, left to right, each as often
  // as it is used; no more than the first `limit`.
  std::vector<ExpressionId> Leaves(ExpressionId id, size_t limit) const;

 private:
  ExpressionId Add(const Expression& expression);

  std::vector<Expression> expressions_;
};

// Computes values of expressions, each once and without recursion, however deep
// the graph. `Functor` says what the expressions mean:
//   Value Input(int rank, int chunk);
//   Value Reduce(const Value& left, const Value& right);
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
      if (PushOperands(graph_[next])) continue;
      pending_.pop_back();
      if (!values_[next].has_value()) values_[next] = Apply(graph_[next]);
    }
    return *values_[id];
  }

 private:
  // True if an operand has to be computed first.
  bool PushOperands(const Expression& expression) {
    const size_t before = pending_.size();
    for (ExpressionId operand : {expression.left, expression.right}) {
      if (operand != kUndefined && !values_[operand].has_value()) {
        pending_.push_back(operand);
      }
    }
    return pending_.size() > before;
  }

  Value Apply(const Expression& expression) {
    switch (expression.kind) {
      case ExpressionKind::kReduce:
        return functor_.Reduce(*values_[expression.left],
                               *values_[expression.right]);
      case ExpressionKind::kFinish:
        return functor_.Finish(*values_[expression.left]);
      case ExpressionKind::kInput:
        break;
    }
    return functor_.Input(expression.rank, expression.chunk);
  }

  const ExpressionGraph& graph_;
  Functor functor_;
  std::vector<std::optional<Value>> values_;
  std::vector<ExpressionId> pending_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_EXPRESSION_H_
