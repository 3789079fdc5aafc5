#ifndef TUTTI_SCHEDULE_PROOF_WRITTEN_EXPRESSION_H_
#define TUTTI_SCHEDULE_PROOF_WRITTEN_EXPRESSION_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace tutti {

// Writes an expression as text, for tests. An Evaluator uses it as its functor.
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

#endif  // TUTTI_SCHEDULE_PROOF_WRITTEN_EXPRESSION_H_
