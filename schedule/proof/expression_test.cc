#include "schedule/proof/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/types/span.h"
#include "schedule/proof/written_expression.h"

namespace tutti {
namespace expression_test {

struct Sum {
  int* reductions;
  int64_t Input(int rank, int) { return rank; }
  int64_t Reduce(absl::Span<const int64_t* const> operands) {
    ++*reductions;
    int64_t sum = 0;
    for (const int64_t* operand : operands) sum += *operand;
    return sum;
  }
  int64_t Finish(int64_t operand) { return -operand; }
};

TEST(ExpressionTest, EvaluationKeepsOrderAndGrouping) {
  ExpressionGraph graph;
  const ExpressionId pair =
      graph.Reduce({graph.Input(2, 5), graph.Input(0, 5)});
  const ExpressionId all =
      graph.Finish(graph.Reduce({graph.Input(1, 5), pair}));
  Evaluator<WrittenExpression> written(graph, {});
  EXPECT_EQ(written(all), "f(1.5+(2.5+0.5))");
  EXPECT_EQ(written(pair), "(2.5+0.5)");
}

TEST(ExpressionTest, AReductionHasAnyNumberOfOperands) {
  ExpressionGraph graph;
  const ExpressionId a = graph.Input(0, 0);
  const ExpressionId b = graph.Input(1, 0);
  const ExpressionId finished = graph.Finish(graph.Input(2, 0));
  const ExpressionId all = graph.Reduce({b, a, finished, b});
  EXPECT_EQ(Evaluator<WrittenExpression>(graph, {})(all), "(1.0+0.0+f2.0+1.0)");
  EXPECT_TRUE(graph[all].has_finish);
  EXPECT_EQ(graph.Leaves(all, 10).size(), 4);
}

TEST(ExpressionTest, SharedOperandsAreEvaluatedOnce) {
  ExpressionGraph graph;
  ExpressionId doubled = graph.Input(1, 0);
  for (int i = 0; i < 60; ++i) doubled = graph.Reduce({doubled, doubled});
  int reductions = 0;
  Evaluator<Sum> sum(graph, {&reductions});
  EXPECT_EQ(sum(doubled), int64_t{1} << 60);
  EXPECT_EQ(sum(doubled), int64_t{1} << 60);
  EXPECT_EQ(reductions, 60);
}

TEST(ExpressionTest, DeepChainsNeedNoDeepStack) {
  constexpr int kDepth = 1'000'000;
  ExpressionGraph graph;
  ExpressionId left_deep = graph.Input(1, 0);
  ExpressionId right_deep = left_deep;
  for (int i = 0; i < kDepth; ++i) {
    left_deep = graph.Reduce({left_deep, graph.Input(1, 0)});
    right_deep = graph.Reduce({graph.Input(1, 0), right_deep});
  }
  int reductions = 0;
  Evaluator<Sum> sum(graph, {&reductions});
  EXPECT_EQ(sum(left_deep), kDepth + 1);
  EXPECT_EQ(sum(right_deep), kDepth + 1);
  EXPECT_EQ(graph.Leaves(left_deep, 2 * kDepth).size(), kDepth + 1);
}

TEST(ExpressionTest, LeavesComeLeftToRightAsOftenAsUsed) {
  ExpressionGraph graph;
  const ExpressionId a = graph.Input(0, 0);
  const ExpressionId b = graph.Input(1, 0);
  const ExpressionId all =
      graph.Finish(graph.Reduce({graph.Reduce({b, a}), graph.Reduce({a, b})}));
  EXPECT_THAT(graph.Leaves(all, 10), testing::ElementsAre(b, a, a, b));
  EXPECT_THAT(graph.Leaves(all, 3), testing::ElementsAre(b, a, a));
}

}  // namespace expression_test
}  // namespace tutti
