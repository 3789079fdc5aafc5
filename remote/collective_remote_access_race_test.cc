// Calls that act on a step while it ends, over transports that answer at once
// or not at all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "remote/collective_remote_access.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {
namespace collective_remote_access_race_test {

constexpr int64_t kStep = 5;
constexpr GroupKey kGroup = 7;

// Answers every request at once, and sends no messages to other tasks.
class PromptTransport : public Transport,
                        public ControlChannel,
                        public TransferChannel {
 public:
  ControlChannel& control() override { return *this; }
  TransferChannel& transfers() override { return *this; }
  absl::Status Start(ControlService*, TransferService*) override {
    return absl::OkStatus();
  }
  void Drop(const ControlCaller&, const absl::Status&) override {}
  void Shutdown() override {}
  void Call(int, proto::ControlRequest, ControlCallOptions,
            ControlDone done) override {
    std::move(done)(proto::ControlReply());
  }
  void Request(int, const BufKey&, const RecvRequest& recv) override {
    recv.receiver->OnDelivery(recv.id, absl::OkStatus(), {});
  }
  void Cancel(const Choice&, const absl::Status&) override {}
  std::vector<BufKey> UnderWay(const Choice&) override { return {}; }
};

class CountingReceiver : public Receiver {
 public:
  void OnDelivery(int32_t, absl::Status status, Delivery) override {
    EXPECT_FALSE(absl::IsAlreadyExists(status));
    ++num_reported;
    last_status = std::move(status);
  }

  int num_reported = 0;
  absl::Status last_status;
};

std::shared_ptr<CollectiveRemoteAccess> AccessOver(
    std::shared_ptr<Transport> transport, const Environment& environment) {
  return CollectiveRemoteAccess::Create(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}, .this_task = 1},
       .environment = environment,
       .groups = std::make_shared<GroupDirectory>(),
       .transport = std::move(transport)});
}

template <typename ItsTransport>
std::shared_ptr<CollectiveRemoteAccess> AccessOver(
    const Environment& environment) {
  return AccessOver(std::make_shared<ItsTransport>(), environment);
}

TEST(CollectiveRemoteAccessRaceTest, AReceiveThatIsCancelledAsItBeginsEnds) {
  constexpr int kReceives = 20'000;
  DefaultEnvironment environment(1);
  auto access = AccessOver<PromptTransport>(environment.get());
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  auto step = access->ForStep(kStep);
  std::atomic<bool> are_all_received{false};
  std::thread canceller([&, exec = key.exec] {
    while (!are_all_received) {
      step->CancelExecution(group, exec, absl::AbortedError("at will"));
      step->ForgetExecution(exec);
    }
  });
  CountingReceiver receiver;
  for (key.tag = 0; key.tag < kReceives; ++key.tag) {
    step->RecvFromPeer(group.members[0], key, {.receiver = &receiver});
  }
  are_all_received = true;
  canceller.join();
  EXPECT_EQ(receiver.num_reported, kReceives);
  EXPECT_EQ(access->num_receiving(), 0);
  step.reset();
  const std::weak_ptr<CollectiveRemoteAccess> left = access;
  access.reset();
  EXPECT_TRUE(left.expired());
}

// Answers no request.
class HoldingTransport : public PromptTransport {
 public:
  void Request(int, const BufKey& key, const RecvRequest& recv) override {
    MutexLock lock(&mu_);
    EXPECT_TRUE(requests_.emplace(key, recv).second);
  }
  void Cancel(const Choice& choice, const absl::Status& reason) override {
    std::vector<RecvRequest> ended;
    {
      MutexLock lock(&mu_);
      absl::erase_if(requests_, [&](const auto& request) {
        if (!choice(request.first)) return false;
        ended.push_back(request.second);
        return true;
      });
    }
    for (const RecvRequest& recv : ended) {
      recv.receiver->OnDelivery(recv.id, reason, {});
    }
  }
  std::vector<BufKey> UnderWay(const Choice& choice) override {
    std::vector<BufKey> keys;
    MutexLock lock(&mu_);
    for (const auto& [key, recv] : requests_) {
      if (choice(key)) keys.push_back(key);
    }
    return keys;
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<BufKey, RecvRequest> requests_ ABSL_GUARDED_BY(mu_);
};

// Calls a function on delivery.
class ReceiverThat : public Receiver {
 public:
  explicit ReceiverThat(std::function<void()> act) : act_(std::move(act)) {}
  void OnDelivery(int32_t, absl::Status, Delivery) override { act_(); }

 private:
  const std::function<void()> act_;
};

TEST(CollectiveRemoteAccessRaceTest, ACancellationEndsNoRequestThatItCauses) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  const BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  const auto step = access->ForStep(kStep);
  CountingReceiver second;
  // Request again, as the next execution with the same key does.
  ReceiverThat first([&] {
    step->ForgetExecution(key.exec);
    step->RecvFromPeer(group.members[0], key, {.receiver = &second});
  });
  step->RecvFromPeer(group.members[0], key, {.receiver = &first});
  step->CancelExecution(group, key.exec, absl::AbortedError("at will"));
  EXPECT_EQ(access->num_receiving(), 1);
  EXPECT_EQ(second.num_reported, 0);
  step->StartAbort(absl::AbortedError("at will"));
  EXPECT_EQ(second.num_reported, 1);
}

// Both sides of transfers, called on any thread.
class CountingSide : public Sender, public Receiver {
 public:
  void OnReleased(int32_t, absl::Status status) override { Count(status); }
  void OnDelivery(int32_t, absl::Status status, Delivery delivery) override {
    if (delivery.sender != nullptr) delivery.Release(absl::OkStatus());
    Count(status);
  }

  std::atomic<int> num_reported{0};
  std::atomic<int> num_failed{0};

 private:
  void Count(const absl::Status& status) {
    if (!status.ok()) ++num_failed;
    ++num_reported;
  }
};

TEST(CollectiveRemoteAccessRaceTest, WhatActsWhileItsStepEndsEndsOnce) {
  constexpr int kRounds = 2'000;
  constexpr int kTags = 3;
  DefaultEnvironment environment(1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  const CollGroupMember here = {{.name = {"worker", 0, 1, "CPU", 0}}};
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  const auto key = [](int64_t step, int tag) {
    return BufKey{{1, step, kGroup, 1, 1}, tag, 0, 1};
  };
  CountingSide sides;
  std::unique_ptr<PeerAccessInterface> transport;
  std::barrier meet(2);
  std::thread member([&] {
    for (int64_t step = 0; step < kRounds; ++step) {
      meet.arrive_and_wait();
      if (step % 3 == 0) transport->StartAbort(absl::AbortedError("why"));
      if (step % 3 == 1) {
        transport->CancelExecution(group, key(step, 0).exec,
                                   absl::AbortedError("why"));
      }
      for (int tag = 0; tag < kTags; ++tag) {
        transport->PostToPeer(here, key(step, tag), {.sender = &sides});
        transport->RecvFromPeer(group.members[0], key(step, tag),
                                {.receiver = &sides});
      }
      meet.arrive_and_wait();
    }
  });
  for (int64_t step = 0; step < kRounds; ++step) {
    transport = access->ForStep(step);
    meet.arrive_and_wait();
    access->EndStep(step);
    meet.arrive_and_wait();
    EXPECT_EQ(sides.num_reported, 2 * kTags * (step + 1)) << "step " << step;
    EXPECT_EQ(access->num_receiving(), 0) << "step " << step;
  }
  member.join();
  EXPECT_EQ(sides.num_failed, sides.num_reported);
}

}  // namespace collective_remote_access_race_test
}  // namespace tutti
