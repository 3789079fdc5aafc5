#ifndef TUTTI_TESTS_CLUSTER_CLUSTER_RESOLVE_TESTING_H_
#define TUTTI_TESTS_CLUSTER_CLUSTER_RESOLVE_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
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

  static void ExpectAllOk(const std::vector<CallPtr>& calls) {
    for (const CallPtr& call : calls) ASSERT_THAT(call->status(), IsOk());
  }

  // Expects that no group or instance waits on any task.
  void ExpectNothingWaits() {
    for (int task = 0; task < options_.num_tasks; ++task) {
      if (!cluster_->is_alive(task)) continue;
      ParamResolverDistributed& resolver =
          *cluster_->control(task).param_resolver();
      EXPECT_EQ(resolver.num_waiting(), 0u) << "task " << task;
    }
  }

  ParamResolverLocal& led(int task) {
    return cluster_->control(task).param_resolver()->led();
  }

  SimulatedCluster::Options options_;
  std::unique_ptr<SimulatedCluster> cluster_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_CLUSTER_RESOLVE_TESTING_H_
