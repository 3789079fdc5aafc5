#ifndef TUTTI_SCHEDULE_PROOF_EXPRESSION_H_
#define TUTTI_SCHEDULE_PROOF_EXPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

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

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_EXPRESSION_H_
