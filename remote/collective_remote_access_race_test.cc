// What acts on a step while it ends or begins anew, over transports that answer
// at once or not at all.

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

// Gives whoever asks what it wants at once, and tells other tasks nothing.
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
  void Request(int, const BufKey&, const Ask& ask) override {
    ask.borrower->OnDelivery(ask.id, absl::OkStatus(), {});
  }
  void Cancel(int, const BufKey&, const Borrower*, absl::Status) override {}
  void AwaitCancelled(int64_t, Work ended) override { std::move(ended)(); }
};

class CountingBorrower : public Borrower {
 public:
  void OnDelivery(int32_t, absl::Status status, Delivery) override {
    EXPECT_FALSE(absl::IsAlreadyExists(status));
    ++num_told;
    last_status = std::move(status);
  }

  int num_told = 0;
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
  CountingBorrower borrower;
  for (key.tag = 0; key.tag < kReceives; ++key.tag) {
    step->RecvFromPeer(group.members[0], key, {.borrower = &borrower});
  }
  are_all_received = true;
  canceller.join();
  EXPECT_EQ(borrower.num_told, kReceives);
  EXPECT_EQ(access->num_receiving(), 0);
  step.reset();
  const std::weak_ptr<CollectiveRemoteAccess> left = access;
  access.reset();
  EXPECT_TRUE(left.expired());
}

// Gives nobody anything.
class HoldingTransport : public PromptTransport {
 public:
  void Request(int, const BufKey& key, const Ask& ask) override {
    MutexLock lock(&mu_);
    EXPECT_TRUE(asks_.emplace(key, ask).second);
  }
  void Cancel(int, const BufKey& key, const Borrower* borrower,
              absl::Status reason) override {
    EndAsk(key, borrower, std::move(reason));
  }

 protected:
  // With a null `borrower`, whoever asked.
  void EndAsk(const BufKey& key, const Borrower* borrower,
              absl::Status reason) {
    Ask ask;
    {
      MutexLock lock(&mu_);
      const auto found = asks_.find(key);
      if (found == asks_.end()) return;  // Cancelled already.
      ask = found->second;
      if (borrower != nullptr && ask.borrower != borrower) return;
      asks_.erase(found);
    }
    ask.borrower->OnDelivery(ask.id, std::move(reason), {});
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<BufKey, Ask> asks_ ABSL_GUARDED_BY(mu_);
};

// Does something when it is told.
class BorrowerThat : public Borrower {
 public:
  explicit BorrowerThat(std::function<void()> act) : act_(std::move(act)) {}
  void OnDelivery(int32_t, absl::Status, Delivery) override { act_(); }

 private:
  const std::function<void()> act_;
};

TEST(CollectiveRemoteAccessRaceTest,
     AStepThatBeginsAnewWhileItIsAbortedHasItsKeys) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  const CollGroupMember peer = {{.name = {"worker", 0, 0, "CPU", 0}}};
  const BufKey first = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  const BufKey second = {{1, kStep, kGroup, 2, 1}, 0, 0, 1};
  std::unique_ptr<PeerAccessInterface> now;
  CountingBorrower old_one, new_one;
  BorrowerThat beginning([&] {
    now = access->ForStep(kStep);
    now->RecvFromPeer(peer, second, {.num_bytes = 4, .borrower = &new_one});
  });
  const auto before = access->ForStep(kStep);
  before->RecvFromPeer(peer, first, {.num_bytes = 4, .borrower = &beginning});
  before->RecvFromPeer(peer, second, {.num_bytes = 4, .borrower = &old_one});
  before->StartAbort(absl::AbortedError("at will"));
  environment.RunAll();
  EXPECT_EQ(old_one.num_told, 1);
  EXPECT_EQ(new_one.num_told, 0);
  now->StartAbort(absl::AbortedError("at will"));
  EXPECT_EQ(new_one.num_told, 1);
}

// What is cancelled has just come to an end by itself.
class LateCancelTransport : public HoldingTransport {
 public:
  void Cancel(int task, const BufKey& key, const Borrower* borrower,
              absl::Status reason) override {
    EndAsk(key, nullptr, absl::UnavailableError("gone"));
    HoldingTransport::Cancel(task, key, borrower, std::move(reason));
  }
};

TEST(CollectiveRemoteAccessRaceTest, ACancellationThatComesLateEndsNoOther) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto access = AccessOver<LateCancelTransport>(environment.get());
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  const BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  const auto step = access->ForStep(kStep);
  CountingBorrower second;
  // As the next execution does that has the same key.
  BorrowerThat first([&] {
    step->ForgetExecution(key.exec);
    step->RecvFromPeer(group.members[0], key, {.borrower = &second});
  });
  step->RecvFromPeer(group.members[0], key, {.borrower = &first});
  step->CancelExecution(group, key.exec, absl::AbortedError("at will"));
  EXPECT_EQ(access->num_receiving(), 1);
  EXPECT_EQ(second.num_told, 0);
  step->StartAbort(absl::AbortedError("at will"));
  EXPECT_EQ(second.num_told, 1);
}

TEST(CollectiveRemoteAccessRaceTest, ToBeginAStepAnewCallsNoReceiver) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  const CollGroupMember peer = {{.name = {"worker", 0, 0, "CPU", 0}}};
  const BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  CountingBorrower first, second;
  const auto before = access->ForStep(kStep);
  before->RecvFromPeer(peer, key, {.num_bytes = 4, .borrower = &first});
  auto now = access->ForStep(kStep);
  EXPECT_EQ(first.num_told, 0);
  now->RecvFromPeer(peer, key, {.num_bytes = 4, .borrower = &second});
  environment.RunAll();
  EXPECT_EQ(first.last_status, BufRendezvous::BegunAnew(kStep));
  EXPECT_EQ(second.num_told, 0);  // It waits: its key was free.
  now.reset();
  EXPECT_EQ(second.num_told, 1);
}

// Tells whoever is cancelled only when it is asked to.
class SlowCancelTransport : public PromptTransport {
 public:
  void Request(int, const BufKey&, const Ask& ask) override {
    asks.push_back(ask);
  }
  void Cancel(int, const BufKey&, const Borrower* borrower,
              absl::Status) override {
    cancelled.push_back(borrower);
  }

  std::vector<Ask> asks;
  std::vector<const Borrower*> cancelled;
};

TEST(CollectiveRemoteAccessRaceTest,
     AStepThatBeginsAnewHasTheKeysOfReceivesThatAreBeingCancelled) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto transport = std::make_shared<SlowCancelTransport>();
  const auto access = CollectiveRemoteAccess::Create(
      {.cluster = {.addresses = {"a:1", "b:1"}, .this_task = 1},
       .environment = environment.get(),
       .groups = std::make_shared<GroupDirectory>(),
       .transport = transport});
  const CollGroupMember peer = {{.name = {"worker", 0, 0, "CPU", 0}}};
  const BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  CountingBorrower first, second;
  const auto before = access->ForStep(kStep);
  before->RecvFromPeer(peer, key, {.borrower = &first});
  auto now = access->ForStep(kStep);
  now->RecvFromPeer(peer, key, {.borrower = &second});
  ASSERT_EQ(transport->asks.size(), 2);
  ASSERT_EQ(transport->cancelled.size(), 1);
  EXPECT_EQ(transport->cancelled[0], transport->asks[0].borrower);
  const absl::Status reason = BufRendezvous::BegunAnew(kStep);
  transport->asks[0].borrower->OnDelivery(0, reason, {});
  environment.RunAll();
  EXPECT_EQ(first.last_status, reason);
  EXPECT_EQ(second.num_told, 0);
  EXPECT_EQ(access->num_receiving(), 1);
  transport->asks[1].borrower->OnDelivery(0, absl::OkStatus(), {});
  EXPECT_EQ(second.last_status, absl::OkStatus());
  EXPECT_EQ(access->num_receiving(), 0);
}

// Both sides of transfers, told on any thread.
class CountingSide : public Lender, public Borrower {
 public:
  void OnReleased(int32_t, absl::Status status) override { Count(status); }
  void OnDelivery(int32_t, absl::Status status, Delivery delivery) override {
    if (delivery.lender != nullptr) delivery.Release(absl::OkStatus());
    Count(status);
  }

  std::atomic<int> num_told{0};
  std::atomic<int> num_failed{0};

 private:
  void Count(const absl::Status& status) {
    if (!status.ok()) ++num_failed;
    ++num_told;
  }
};

// Does something while it is first asked.
class TransportThat : public HoldingTransport {
 public:
  void Request(int task, const BufKey& key, const Ask& ask) override {
    HoldingTransport::Request(task, key, ask);
    ++num_requests;
    if (act != nullptr) std::exchange(act, nullptr)();
  }

  std::function<void()> act;
  int num_requests = 0;
};

// Its transport would take the second for the first one asked twice.
TEST(CollectiveRemoteAccessRaceTest,
     AStepThatBeginsAnewWhileItAsksAsksWhenThatIsCancelled) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto transport = std::make_shared<TransportThat>();
  const auto access = AccessOver(transport, environment.get());
  const BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  const CollGroupMember peer = {{.name = {"worker", 0, 0, "CPU", 0}}};
  CountingBorrower former;
  CountingBorrower between;  // Of a step that begins anew before it asks.
  CountingBorrower later;
  const auto before = access->ForStep(kStep);
  std::unique_ptr<PeerAccessInterface> replaced;
  std::unique_ptr<PeerAccessInterface> now;
  transport->act = [&] {
    replaced = access->ForStep(kStep);
    replaced->RecvFromPeer(peer, key, {.borrower = &between});
    now = access->ForStep(kStep);
    now->RecvFromPeer(peer, key, {.borrower = &later});
  };
  before->RecvFromPeer(peer, key, {.borrower = &former});
  environment.RunAll();
  for (const CountingBorrower* borrower : {&former, &between}) {
    EXPECT_EQ(borrower->num_told, 1);
    EXPECT_TRUE(absl::IsCancelled(borrower->last_status));
  }
  EXPECT_EQ(later.num_told, 0);
  EXPECT_EQ(transport->num_requests, 2);
  EXPECT_EQ(access->num_receiving(), 1);
  now->StartAbort(absl::AbortedError("over"));
  environment.RunAll();
  EXPECT_EQ(later.num_told, 1);
  EXPECT_EQ(access->num_receiving(), 0);
}

TEST(CollectiveRemoteAccessRaceTest, WhatWasReplacedAsItActsTouchesNothing) {
  constexpr int kRounds = 2'000;
  constexpr int kTags = 3;
  DefaultEnvironment environment(1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  const CollGroupMember here = {{.name = {"worker", 0, 1, "CPU", 0}}};
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  const auto key = [](int tag) {
    return BufKey{{1, kStep, kGroup, 1, 1}, tag, 0, 1};
  };
  CountingSide late;
  std::unique_ptr<PeerAccessInterface> before = access->ForStep(kStep);
  std::barrier meet(2);
  std::thread former([&] {
    for (int round = 0; round < kRounds; ++round) {
      meet.arrive_and_wait();
      if (round % 3 == 0) before->StartAbort(absl::AbortedError("late"));
      if (round % 3 == 1) {
        before->CancelExecution(group, key(0).exec, absl::AbortedError("late"));
      }
      for (int tag = 0; tag < kTags; ++tag) {
        before->PostToPeer(here, key(tag), {.lender = &late});
        before->RecvFromPeer(group.members[0], key(tag), {.borrower = &late});
      }
      meet.arrive_and_wait();
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    meet.arrive_and_wait();
    auto now = access->ForStep(kStep);
    meet.arrive_and_wait();
    access->Drain();
    EXPECT_EQ(late.num_told, 2 * kTags * (round + 1)) << "round " << round;
    EXPECT_EQ(access->num_receiving(), 0) << "round " << round;
    CountingSide sides;
    for (int tag = 0; tag < kTags; ++tag) {
      now->PostToPeer(here, key(tag), {.lender = &sides});
      now->RecvFromPeer(here, key(tag), {.borrower = &sides});
    }
    EXPECT_EQ(sides.num_told, 2 * kTags) << "round " << round;
    EXPECT_EQ(sides.num_failed, 0) << "round " << round;
    before = std::move(now);
  }
  former.join();
}

}  // namespace collective_remote_access_race_test
}  // namespace tutti
