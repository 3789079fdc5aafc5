// Tests of collectives that cannot run and are refused before any message.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "implementations/two_level/local_then.h"
#include "implementations/two_level/local_then_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_refusals_test {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Optional;

using Call = Processes::Call;

REGISTER_COLLECTIVE(ThenNobody, LocalThenFactory<"Nobody">());
REGISTER_COLLECTIVE(ThenLocalReduce, LocalThenFactory<"LocalReduce">());
REGISTER_COLLECTIVE(ThenRingGather, LocalThenFactory<"RingGather">());
REGISTER_COLLECTIVE(ThenLocalThenRing, LocalThenFactory<"LocalThenRing">());

// Plans a send to a rank that does not exist.
Schedule PlanOfNoUse(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(request.layout.size(), /*tag=*/0, Input(0));
  return builder.Build();
}
REGISTER_COLLECTIVE(
    NotPlannable,
    Scheduled({.traits = {.summary = "for a test",
                          .collectives = {CollectiveType::kAllReduce}},
               .plan = PlanOfNoUse}));
REGISTER_COLLECTIVE(ThenNotPlannable, LocalThenFactory<"NotPlannable">());

// Claims to be made of steps, but is not.
class Pretender : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(
      CollectiveContext* /*context*/) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext& /*context*/, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};
REGISTER_COLLECTIVE(
    Pretending,
    Implemented<Pretender>({.summary = "for a test",
                            .collectives = {CollectiveType::kAllReduce},
                            .is_made_of_steps = true}));
REGISTER_COLLECTIVE(ThenPretending, LocalThenFactory<"Pretending">());

TEST(LocalThenTest, WhatCannotReduceBetweenProcessesIsRefused) {
  Processes processes({2, 2});
  int64_t instance = 0;
  for (const auto& [name, code, text] :
       {std::tuple{"ThenNobody", StatusCode::kNotFound, "Nobody"},
        std::tuple{"ThenLocalReduce", StatusCode::kInvalidArgument,
                   "LocalReduce is no schedule that all-reduces"},
        std::tuple{"ThenLocalThenRing", StatusCode::kInvalidArgument,
                   "LocalThenRing is no schedule that all-reduces"},
        std::tuple{"ThenPretending", StatusCode::kInvalidArgument,
                   "Pretending is no schedule that all-reduces"},
        std::tuple{"ThenRingGather", StatusCode::kInvalidArgument,
                   "RingGather is no schedule that all-reduces"}}) {
    CollectiveRequest request = processes.Request(name, DType::kInt32, 4);
    request.instance_key = ++instance;
    std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      EXPECT_THAT(call.status, Optional(StatusIs(code, HasSubstr(text))));
    }
  }
}

TEST(LocalThenTest, WhatIsPreparedIsPlanned) {
  Processes processes({2, 1});
  CollectiveRequest request =
      processes.Request("ThenNotPlannable", DType::kInt32, 4);
  std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    processes.executor(static_cast<int>(rank))
        .Prepare(
            processes.ArgsOf(static_cast<int>(rank), request, calls[rank],
                             /*in_place=*/false),
            [&call = calls[rank]](auto made) { call.status = made.status(); });
  }
  processes.environment().RunAll();
  for (const size_t first : {0, 2}) {
    EXPECT_THAT(calls[first].status,
                Optional(StatusIs(StatusCode::kInvalidArgument,
                                  HasSubstr("NotPlannable"))));
  }
}

TEST(LocalThenTest, AMergeOpThatNeedsTheOrderOfRanksIsRefused) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, 4);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/false, &num_calls);
  std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
  processes.RunAll(request, calls);
  for (const Call& call : calls) {
    EXPECT_THAT(call.status, Optional(StatusIs(StatusCode::kInvalidArgument,
                                               HasSubstr("LocalThenRing"))));
  }
}

TEST(LocalThenTest, ATaskThatIsInSeveralProcessesIsRefused) {
  auto group = std::make_shared<CollGroupParams>();
  group->layout =
      std::make_shared<const GroupLayout>(GroupLayout::Uniform(2, 2));
  auto instance = std::make_shared<CollInstanceParams>();
  instance->impl_details.implementation = "LocalThenRing";
  auto task = std::make_shared<CollTaskParams>();
  task->is_local = {true, false, false, false};
  task->num_local = 1;
  CollectiveParams params;
  params.group = group;
  params.instance = instance;
  params.task = task;
  params.default_rank = 0;
  CollectiveContext context;
  context.params = &params;
  const auto implementation =
      (*CollectiveRegistry::Global().Find("LocalThenRing"))->Create();
  EXPECT_THAT(implementation->InitializeCollectiveContext(&context),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("LocalThenRing needs each task in one "
                                 "process, but rank 1 is not in that of "
                                 "rank 0")));
}

}  // namespace local_then_refusals_test
}  // namespace tutti
