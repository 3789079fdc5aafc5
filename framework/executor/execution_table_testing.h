#ifndef TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_TESTING_H_
#define TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/execution_table.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Table of a step, with two devices of this process that call.
class ExecutionTableTest : public testing::Test {
 protected:
  static constexpr int64_t kStep = 9;
  static constexpr size_t kMaxEntries = 16;  // Eight instances of two members.

  static CollectiveRequest Request(InstanceKey instance, GroupKey group = 1) {
    return {.group_key = group, .group_size = 2, .instance_key = instance};
  }

  static std::shared_ptr<const void> NoOwner() { return nullptr; }

  std::shared_ptr<Execution> Join(const Device& device, InstanceKey instance,
                                  std::optional<uint64_t> number = {}) {
    auto joined = table_.Join(&device, Request(instance), number, NoOwner);
    settled_ = joined.settled;
    forgotten_.clear();
    if (joined.forgotten != nullptr) {
      forgotten_ = std::move(joined.forgotten->keys);
    }
    return ExecutionTable::Share(*joined.execution);
  }

  // Settles the member as a resolver does, with `num_local` members in this
  // process.
  absl::Status SettleIn(std::shared_ptr<const CollGroupParams> group,
                        const Device& device, Execution& execution,
                        int num_local = 2) {
    auto task = std::make_shared<CollTaskParams>();
    task->num_local = num_local;
    auto params = std::make_shared<CollectiveParams>();
    params->group = std::move(group);
    params->task = std::move(task);
    return table_.Settle(
        &device, execution,
        std::make_shared<const SettledFacts>(std::move(params)));
  }
  void Settle(const Device& device, Execution& execution, int num_local = 2) {
    ASSERT_THAT(SettleIn(GroupOf(2), device, execution, num_local), IsOk());
  }

  static ExecKey KeyOf(InstanceKey instance, uint64_t execution,
                       uint64_t generation = 1) {
    return {.generation = generation,
            .step = kStep,
            .group = 1,
            .instance = instance,
            .execution = execution};
  }

  // Runs one whole execution by both devices.
  void RunOnce(InstanceKey instance) {
    const auto execution = Join(a_, instance);
    ASSERT_EQ(Join(b_, instance), execution);
    for (int i = 0; i < 2; ++i) {
      ++execution->num_launched;
      table_.Leave(*execution, {});
    }
  }

  // Runs one whole execution, settled in that group.
  void RunOnceIn(const std::shared_ptr<const CollGroupParams>& group,
                 InstanceKey instance) {
    const auto execution = Join(a_, instance);
    ASSERT_EQ(Join(b_, instance), execution);
    ASSERT_THAT(SettleIn(group, a_, *execution), IsOk());
    ASSERT_THAT(SettleIn(group, b_, *execution), IsOk());
    for (int i = 0; i < 2; ++i) table_.Leave(*execution, {});
  }

  CpuDevice a_{DeviceAttributes{.name = {"localhost", 0, 0, "CPU", 0}}};
  CpuDevice b_{DeviceAttributes{.name = {"localhost", 0, 0, "CPU", 1}}};
  ExecutionTable table_{kStep, /*num_local_devices=*/2, kMaxEntries,
                        [](const Device* /*device*/) { return true; }};
  const SettledFacts* settled_ = nullptr;  // Set by the last Join().
  std::vector<ExecKey> forgotten_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_TESTING_H_
