// Tests that nothing is left of a transport after its shutdown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "remote/fake_services.h"
#include "remote/grpc/test_tasks.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace shutdown_test {

size_t NumEntries(const char* folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder),
                    std::filesystem::directory_iterator()));
}

// Runs two tasks, and shuts them down in the middle of their transfers.
void StartTalkAndStop() {
  TestTasks tasks(2);
  tasks.StartAll();
  ASSERT_THAT(CallAndWait(tasks.transport(0).control(), 1, CleanupStep(1)),
              IsOk());
  const std::vector<std::byte> bytes = Pattern(size_t{8} << 20);
  std::vector<WaitingSender> senders(4);
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int i = 0; i < 8; ++i) {
    receivers.push_back(std::make_unique<WaitingReceiver>(bytes.size()));
    tasks.Request(0, 1, KeyOf(i), bytes.size(), *receivers[i]);
  }
  for (int i = 0; i < 4; ++i) {
    tasks.table(1).Provide(KeyOf(i), {.bytes = bytes, .sender = &senders[i]});
  }
  receivers[0]->WaitForPart();
  ControlAnswer answer;
  tasks.transport(1).control().Call(
      0, CleanupStep(1), {},
      [&](ControlAnswer given) { answer = std::move(given); });
  tasks.Stop(1);
  tasks.Stop(0);
  // No transfer is under way now; offers without a request are ours.
  for (auto& receiver : receivers) receiver->Wait().IgnoreError();
}

TEST(ShutdownTest, RepeatedlyLeavesNoFileAndNoThread) {
  // gRPC keeps a few of both.
  constexpr int kNumTimes = 20;
  for (int i = 0; i < 5; ++i) StartTalkAndStop();
  const size_t num_files = NumEntries("/proc/self/fd");
  const size_t num_threads = NumEntries("/proc/self/task");
  for (int i = 0; i < kNumTimes; ++i) StartTalkAndStop();
  EXPECT_LT(NumEntries("/proc/self/fd"), num_files + kNumTimes);
  EXPECT_LT(NumEntries("/proc/self/task"), num_threads + kNumTimes);
}

TEST(ShutdownTest, ATransportThatWasNeverStartedGoes) {
  TestTasks tasks(2);
  tasks.Start(0);
  tasks.transport(0).Shutdown();
  tasks.transport(0).Shutdown();
}

}  // namespace shutdown_test
}  // namespace tutti
