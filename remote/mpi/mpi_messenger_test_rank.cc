// What processes of a job see of each other's messages: mpirun_test.py starts
// them. Long ones wait for their sender, as they do between hosts.

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/blocking_counter.h"
#include "framework/default_environment.h"
#include "proto/mpi.pb.h"
#include "remote/mpi/mpi_messenger.h"
#include "remote/mpi/mpi_runtime.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

// More than MPI sends before it knows that it is received.
constexpr size_t kManyBytes = size_t{1} << 20;

// `id` is what tells them apart.
proto::MpiMessage MessageOf(uint64_t id, size_t num_bytes = 0) {
  proto::MpiMessage message;
  message.mutable_pulled()->set_id(id);
  message.mutable_pulled()->set_payload(std::string(num_bytes, 'x'));
  return message;
}

// Runs it on MPI's thread, which calls nothing of MPI otherwise.
void OnMpiThread(MpiRuntime& runtime, const std::function<void()>& work) {
  BlockingCounter done(1);
  runtime.Post([&] {
    work();
    done.DecrementCount();
  });
  done.Wait();
}

using Received = std::vector<std::pair<int, uint64_t>>;

// Until `id` has come from `task`.
void ReceiveUntil(MpiRuntime& runtime, MpiMessenger& messenger,
                  std::pair<int, uint64_t> last, Received& received) {
  while (!absl::c_linear_search(received, last)) {
    OnMpiThread(runtime, [&] {
      messenger.Poll();
      messenger.Receive([&](int task, const proto::MpiMessage& message) {
        received.emplace_back(task, message.pulled().id());
      });
    });
  }
}

// Rank 1 stands still, as MPI sees it, in the middle of a long message to rank
// 0, until rank 0 has heard of rank 2 twice and signals it.
TEST(MpiMessengerTest, ASenderThatStandsStillKeepsBackItsOwnMessagesAlone) {
  const DefaultEnvironment environment(1);
  MpiRuntime runtime({.environment = environment.get()});
  ASSERT_THAT(runtime.Start(), IsOk());
  MpiMessenger messenger(&runtime, /*incarnation=*/1);
  Received received;
  if (*runtime.size() < 3) GTEST_SKIP() << "It takes three processes.";
  switch (*runtime.rank()) {
    case 0: {
      // In this order: rank 1's long message lies before what rank 2 sends.
      uint64_t pid = 0;
      while (pid == 0) {
        OnMpiThread(runtime, [&] {
          messenger.Receive([&](int, const proto::MpiMessage& message) {
            pid = message.pulled().id();
          });
        });
      }
      OnMpiThread(runtime, [&] { messenger.Send(2, MessageOf(1)); });
      ReceiveUntil(runtime, messenger, {2, 4}, received);
      EXPECT_EQ(received, (Received{{2, 3}, {2, 4}}));
      kill(static_cast<pid_t>(pid), SIGUSR1);
      received.clear();
      ReceiveUntil(runtime, messenger, {1, 6}, received);
      EXPECT_EQ(received, (Received{{1, 5}, {1, 6}}));
      OnMpiThread(runtime, [&] { messenger.Send(1, MessageOf(7)); });
      break;
    }
    case 1: {
      OnMpiThread(runtime, [&] {
        messenger.Send(0, MessageOf(static_cast<uint64_t>(getpid())));
        messenger.Send(0, MessageOf(5, kManyBytes));
        messenger.Send(0, MessageOf(6));
      });
      sigset_t signals;
      sigemptyset(&signals);
      sigaddset(&signals, SIGUSR1);
      int signal = 0;
      sigwait(&signals, &signal);
      ReceiveUntil(runtime, messenger, {0, 7}, received);
      break;
    }
    case 2:
      ReceiveUntil(runtime, messenger, {0, 1}, received);
      OnMpiThread(runtime, [&] {
        messenger.Send(0, MessageOf(3));
        messenger.Send(0, MessageOf(4));
      });
      break;
    default:
      break;
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  // So that bytes need their sender: it reads the memory of none.
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", /*replace=*/1);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
