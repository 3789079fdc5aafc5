#include "tests/conformance/test_group.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/param_resolver_local.h"
#include "resolvers/local/step_sequence_local.h"
#include "tests/doubles/forwarding_peer_access.h"
#include "tests/doubles/parts_peer_access.h"
#include "tutti/environment.h"

namespace tutti::conformance {
namespace {

// Counts the work that it passes on. Thread-safe.
class CountingQueue : public WorkQueue {
 public:
  explicit CountingQueue(WorkQueue* target) : target_(target) {}

  void Schedule(Work work) override ABSL_LOCKS_EXCLUDED(mu_) {
    {
      MutexLock lock(&mu_);
      ++num_left_;
    }
    target_->Schedule([this, work = std::move(work)]() mutable {
      std::move(work)();
      work = nullptr;  // What it holds goes before it counts as done.
      MutexLock lock(&mu_);
      if (--num_left_ == 0) none_left_.SignalAll();
    });
  }
  int num_workers() const override { return target_->num_workers(); }

  void WaitUntilNoneIsLeft() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (num_left_ > 0) none_left_.Wait(&mu_);
  }

 private:
  WorkQueue* const target_;
  Mutex mu_;
  CondVar none_left_;
  int64_t num_left_ ABSL_GUARDED_BY(mu_) = 0;
};

class ThreadsDriver : public WorkDriver {
 public:
  explicit ThreadsDriver(int num_threads)
      : num_threads_(num_threads),
        threads_(num_threads),
        queue_(threads_.get().queue),
        environment_{&queue_, threads_.get().clock, threads_.get().random} {}
  ~ThreadsDriver() override { queue_.WaitUntilNoneIsLeft(); }

  const Environment& environment() const override { return environment_; }
  void RunAll() override { queue_.WaitUntilNoneIsLeft(); }
  std::string ToString() const override {
    return absl::StrCat(num_threads_, " threads");
  }

 private:
  const int num_threads_;
  DefaultEnvironment threads_;
  CountingQueue queue_;
  const Environment environment_;
};

// Passes transfers on from the work queue, each as work of its own, so that
// their order is that of the queue: as seeds or threads make it.
class DeferringPeerAccess : public ForwardingPeerAccess {
 public:
  // `queue` outlives all transfers.
  DeferringPeerAccess(std::unique_ptr<PeerAccessInterface> target,
                      WorkQueue* queue)
      : ForwardingPeerAccess(std::move(target)), queue_(queue) {}

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    queue_->Schedule(
        [this, &peer, key, offer] { target().PostToPeer(peer, key, offer); });
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    queue_->Schedule(
        [this, &peer, key, recv] { target().RecvFromPeer(peer, key, recv); });
  }

 private:
  WorkQueue* const queue_;
};

}  // namespace

std::string SeededDriver::ToString() const {
  return absl::StrCat("work order of seed ", seed_);
}

std::unique_ptr<WorkDriver> OnThreads(int num_threads) {
  return std::make_unique<ThreadsDriver>(num_threads);
}

TestGroup::TestGroup(const Grid& grid, WorkDriver* driver, Transfers transfers,
                     int64_t failing_transfer)
    : driver_(driver),
      transfers_(transfers),
      failing_transfer_(failing_transfer),
      devices_(*DeviceManager::CreateCpu(grid.tasks, grid.devices,
                                         driver->environment().random)),
      manager_(*CollectiveExecutorMgr::Create({
          .environment = driver->environment(),
          .devices = devices_.get(),
          .param_resolver = ParamResolverLocal::Create({}),
          .device_resolver =
              std::make_shared<DeviceResolverLocal>(devices_.get()),
          .step_sequence =
              std::make_shared<StepSequenceLocal>(driver->environment().random),
          .make_peer_access = [this](int64_t) { return MakePeerAccess(); },
      })) {}

TestGroup::~TestGroup() {
  manager_->CleanupAll();
  driver_->RunAll();
}

std::unique_ptr<PeerAccessInterface> TestGroup::MakePeerAccess() {
  auto failing = std::make_unique<FailNthTransfer>(
      std::make_unique<LocalPeerAccess>(), failing_transfer_);
  failing_ = failing.get();
  if (transfers_ == Transfers::kAtOnce) return failing;
  return std::make_unique<DeferringPeerAccess>(
      std::make_unique<PartsPeerAccess>(std::move(failing)),
      driver_->environment().queue);
}

}  // namespace tutti::conformance
