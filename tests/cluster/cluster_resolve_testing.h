#ifndef TUTTI_TESTS_CLUSTER_CLUSTER_RESOLVE_TESTING_H_
#define TUTTI_TESTS_CLUSTER_CLUSTER_RESOLVE_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/control/control_channel.h"
#include "proto/control.pb.h"
#include "resolvers/leader/param_resolver_distributed.h"
#include "resolvers/local/param_resolver_local.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"

namespace tutti {

// Tasks of a simulated cluster that have joined, and calls of their devices.
class ClusterResolveTest : public testing::Test {
 protected:
  using CallPtr = SimulatedCluster::CallPtr;

  void Begin(SimulatedCluster::Options options) {
    options_ = options;
    cluster_ = std::make_unique<SimulatedCluster>(options);
    cluster_->StartAll();
    for (int task = 0; task < options_.num_tasks; ++task) {
      ASSERT_EQ(cluster_->join_status(task), absl::OkStatus());
    }
  }

  int size() const { return options_.num_tasks * options_.devices_per_task; }
  CollectiveRequest Request(InstanceKey key = 1) const {
    return AllReduceOf(kGroup, size(), key);
  }

  std::vector<CallPtr> RequestAll(const CollectiveRequest& request) {
    std::vector<CallPtr> calls;
    for (int task = 0; task < options_.num_tasks; ++task) {
      if (!cluster_->is_alive(task)) continue;
      for (int i = 0; i < options_.devices_per_task; ++i) {
        calls.push_back(cluster_->Request(task, i, request));
      }
    }
    return calls;
  }

  // Calls of the first device of each task, each with its request changed.
  std::vector<CallPtr> RequestEach(
      const std::function<void(int task, CollectiveRequest&)>& change) {
    std::vector<CallPtr> calls;
    for (int task = 0; task < options_.num_tasks; ++task) {
      CollectiveRequest request = Request();
      change(task, request);
      calls.push_back(cluster_->Request(task, 0, request));
    }
    cluster_->RunFor(absl::Seconds(1));
    return calls;
  }

  // Calls of all devices, which end well within a second.
  std::vector<CallPtr> Settle(const CollectiveRequest& request) {
    auto calls = RequestAll(request);
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsOk());
    return calls;
  }

  void EndGroup(int task, absl::string_view why) {
    Resolver(task).EndGroup(kGroup, absl::AbortedError(why));
  }

  // Status with which the call's group has ended on the call's task.
  static absl::Status GroupEnd(const CallPtr& call) {
    return call->params().group->cancellation->status();
  }
  static void ExpectGroupEnds(const std::vector<CallPtr>& calls,
                              const testing::Matcher<absl::Status>& matcher) {
    for (const CallPtr& call : calls) EXPECT_THAT(GroupEnd(call), matcher);
  }

  // Sends a message of task `from`, bypassing its objects, and runs for a
  // second. Returns the answer.
  ControlAnswer Send(int from, int to, const proto::ControlRequest& request) {
    const auto answer =
        std::make_shared<ControlAnswer>(absl::UnknownError("not answered"));
    cluster_->Send(
        {from, cluster_->Device(from, 0).incarnation}, to, request,
        [answer](ControlAnswer given) { *answer = std::move(given); });
    cluster_->RunFor(absl::Seconds(1));
    return *answer;
  }

  // Calls for the first device of the task, and runs for a second.
  CallPtr RequestAndRun(int task, const CollectiveRequest& request) {
    CallPtr call = cluster_->Request(task, 0, request);
    cluster_->RunFor(absl::Seconds(1));
    return call;
  }

  // Expects that no group or instance waits on any task.
  void ExpectNothingWaits() {
    for (int task = 0; task < options_.num_tasks; ++task) {
      if (!cluster_->is_alive(task)) continue;
      EXPECT_EQ(Resolver(task).num_waiting(), 0u) << "task " << task;
      EXPECT_EQ(Resolver(task).leader().num_waiting(), 0u) << "task " << task;
    }
  }

  ParamResolverDistributed& Resolver(int task) {
    return *cluster_->control(task).param_resolver();
  }
  ParamResolverLocal& led(int task) { return Resolver(task).led(); }

  SimulatedCluster::Options options_;
  std::unique_ptr<SimulatedCluster> cluster_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_CLUSTER_RESOLVE_TESTING_H_
