// Calls of members whose instance was settled by the same request.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/execution_table_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace execution_table_settled_calls_test {

using testing::Contains;
using testing::SizeIs;

// Two members whose instance 7 is settled by one request and has run once.
class SettledCallsTest : public ExecutionTableTest {
 protected:
  SettledCallsTest() {
    for (const Device* device : {&a_, &b_}) {
      const auto execution =
          table_.Join(device, *request_, std::nullopt, NoOwner)->execution;
      EXPECT_THAT(SettleFor(*device, *execution), IsOk());
      if (device == &b_) table_.Leave(*execution, {.num_members = 2});
    }
  }

  std::shared_ptr<const CollectiveParams> SettledParams() const {
    auto task = std::make_shared<CollTaskParams>();
    task->num_local = 2;
    auto params = std::make_shared<CollectiveParams>();
    params->group = group_;
    params->task = std::move(task);
    return params;
  }

  absl::Status SettleFor(const Device& device, Execution& execution,
                         bool has_dependencies = false) {
    auto settled = std::make_shared<SettledFacts>(SettledParams());
    settled->request = request_;
    settled->has_dependencies = has_dependencies;
    return table_.Settle(&device, execution, std::move(settled));
  }

  // Returns what is settled for the member now.
  const SettledFacts* Settled(const Device& device) {
    const auto joined =
        table_.Join(&device, *request_, std::nullopt, NoOwner).value();
    table_.Leave(*joined.execution, {});
    return joined.settled.get();
  }

  TableCall* JoinSettled(CpuDevice& device) {
    return table_.JoinSettled(&device, *request_, NoOwner, &status_);
  }

  const std::shared_ptr<CollGroupParams> group_ =
      std::make_shared<CollGroupParams>(*GroupOf(2));
  const std::shared_ptr<const CollectiveRequest> request_ =
      std::make_shared<const CollectiveRequest>(Request(7));
  absl::Status status_;
};

TEST_F(SettledCallsTest, JoinTheSameExecutionsAsOthers) {
  TableCall* const call = JoinSettled(a_);
  ASSERT_NE(call, nullptr);
  EXPECT_THAT(status_, IsOk());
  EXPECT_EQ(call->context.device, &a_);
  EXPECT_EQ(call->context.params, call->settled->params.get());
  EXPECT_EQ(call->context.execution, call->execution);
  EXPECT_EQ(call->context.exec_key, KeyOf(7, 1));
  EXPECT_EQ(Join(b_, 7).get(), call->execution);
  EXPECT_EQ(Join(b_, 7)->number, 2u);
  table_.Leave(*call->execution, {.num_members = 2, .calls = {&call, 1}});
}

TEST_F(SettledCallsTest, AreNoneOfWhatWasNotSettledByThatRequest) {
  const CollectiveRequest equal = *request_;
  EXPECT_EQ(table_.JoinSettled(&a_, equal, NoOwner, &status_), nullptr);
  const CollectiveRequest unknown = Request(8);
  EXPECT_EQ(table_.JoinSettled(&a_, unknown, NoOwner, &status_), nullptr);
  CpuDevice other{DeviceAttributes{.name = {"localhost", 0, 0, "CPU", 2}}};
  EXPECT_EQ(JoinSettled(other), nullptr);
  Join(a_, 9);  // Joined, but not settled.
  const CollectiveRequest unsettled = Request(9);
  EXPECT_EQ(table_.JoinSettled(&a_, unsettled, NoOwner, &status_), nullptr);
}

TEST_F(SettledCallsTest, AreNoneWithDependencies) {
  ASSERT_THAT(SettleFor(a_, *Join(a_, 7), /*has_dependencies=*/true), IsOk());
  EXPECT_EQ(JoinSettled(a_), nullptr);
}

TEST_F(SettledCallsTest, AreNoneOfAMemberThatGivesNumbers) {
  const auto request = std::make_shared<const CollectiveRequest>(Request(8));
  const auto execution = Join(a_, 8, 5);
  auto settled = std::make_shared<SettledFacts>(SettledParams());
  settled->request = request;
  ASSERT_THAT(table_.Settle(&a_, *execution, std::move(settled)), IsOk());
  EXPECT_EQ(table_.JoinSettled(&a_, *request, NoOwner, &status_), nullptr);
}

TEST_F(SettledCallsTest, AreNoneOnceTheGroupHasEnded) {
  group_->cancellation->Cancel(absl::AbortedError("ended"));
  EXPECT_EQ(JoinSettled(a_), nullptr);
}

TEST_F(SettledCallsTest, AreUsedAgainAndBelongToOneMemberAtATime) {
  std::vector<TableCall*> calls;
  constexpr int kUnderWay = 40;  // More than are kept.
  for (int i = 0; i < kUnderWay; ++i) calls.push_back(JoinSettled(a_));
  EXPECT_EQ(std::set<TableCall*>(calls.begin(), calls.end()).size(),
            calls.size());
  size_t num_dropped = 0;
  for (TableCall*& call : calls) {
    num_dropped +=
        table_.Leave(*call->execution, {.calls = {&call, 1}}).calls.size();
  }
  EXPECT_GT(num_dropped, 0u);
  EXPECT_LT(num_dropped, calls.size());
  TableCall* const again = JoinSettled(a_);
  EXPECT_THAT(calls, Contains(again));
  table_.Leave(*again->execution, {.calls = {&again, 1}});
}

// Kept calls keep neither an ended group nor former settled facts.
TEST_F(SettledCallsTest, ThatAreKeptKeepNoGroup) {
  std::vector<TableCall*> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(JoinSettled(a_));
  const std::weak_ptr<const SettledFacts> before = calls[0]->settled;
  for (TableCall*& call : calls) {
    table_.Leave(*call->execution, {.calls = {&call, 1}});
  }
  ASSERT_THAT(SettleFor(a_, *Join(a_, 7)), IsOk());
  settled_ = nullptr;
  EXPECT_TRUE(before.expired());
  TableCall* const call = JoinSettled(a_);
  group_->cancellation->Cancel(absl::AbortedError("ended"));
  EXPECT_THAT(table_.Leave(*call->execution, {.calls = {&call, 1}}).calls,
              SizeIs(1));
}

TEST_F(SettledCallsTest, HaveWhatIsSettledForTheirMember) {
  TableCall* call = JoinSettled(a_);
  const auto* const first = call->settled.get();
  EXPECT_EQ(first, Settled(a_));
  table_.Leave(*call->execution, {.calls = {&call, 1}});
  ASSERT_THAT(SettleFor(a_, *Join(a_, 7)), IsOk());
  call = JoinSettled(a_);
  EXPECT_NE(call->settled.get(), first);
  EXPECT_EQ(call->settled.get(), Settled(a_));
  table_.Leave(*call->execution, {.calls = {&call, 1}});
}

}  // namespace execution_table_settled_calls_test
}  // namespace tutti
