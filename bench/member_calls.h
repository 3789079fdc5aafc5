#ifndef TUTTI_BENCH_MEMBER_CALLS_H_
#define TUTTI_BENCH_MEMBER_CALLS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/measure/perf_buffers.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {

// A number of calls made together. Thread-safe.
class Round {
 public:
  explicit Round(int num_calls) : left_(num_calls) {}
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // Callback `done` of each call.
  void End(absl::Status status);

  // Whether all calls have ended.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Waits until all calls have ended. Returns OK, or the error of one call.
  absl::Status Wait();

  // Time when the last call ended. REQUIRES: Wait() has returned.
  std::chrono::steady_clock::time_point end() const { return end_; }

 private:
  // Written by each call, so on a separate cache line from `ended_`, which
  // waiting threads read: waiting does not slow calls down.
  ABSL_CACHELINE_ALIGNED std::atomic<int> left_;
  std::atomic<bool> failed_ = false;
  absl::Status error_;  // Of the call that set `failed_`.
  std::chrono::steady_clock::time_point end_;
  ABSL_CACHELINE_ALIGNED std::atomic<bool> ended_ = false;
  BlockingCounter all_ended_{1};
};

// Ranks [begin, end).
struct Ranks {
  int begin = 0;
  int end = 0;
};

// Runs all-reduces among devices of this process, as an embedder would call
// them.
class MemberCalls {
 public:
  // The parts of `environment` outlive the object. Errors:
  // LocalGroup::Create().
  static absl::StatusOr<std::unique_ptr<MemberCalls>> Create(
      const Environment& environment, int num_devices);

  // Returns the same object for the same arguments. Concurrent requests need
  // different numbers. Not thread-safe.
  std::shared_ptr<const CollectiveRequest> RequestOf(const Workload& workload,
                                                     int number);

  // Makes the calls of some ranks, which end in `round`. Thread-safe.
  void Make(const std::shared_ptr<const CollectiveRequest>& request,
            std::vector<RankBuffers>* buffers, Ranks ranks, Round* round);

  // Makes the calls of all ranks, with each rank's segments.
  void MakeTogether(
      const std::shared_ptr<const CollectiveRequest>& request,
      const std::vector<std::shared_ptr<const SegmentList>>& segments,
      Round* round);

  // Prepares the calls of all ranks, with separate outputs or one shared
  // output. Errors: CollectiveExecutor::Prepare().
  absl::StatusOr<std::vector<std::shared_ptr<PreparedCollective>>> Prepare(
      const std::shared_ptr<const CollectiveRequest>& request,
      const std::vector<RankBuffers>& buffers, bool allow_shared_output);

  // Number of pieces of work that the queue got until now.
  int64_t num_handed_over() const { return queue_.count; }

 private:
  struct CountingQueue : WorkQueue {
    explicit CountingQueue(WorkQueue* queue) : queue(queue) {}
    void Schedule(Work work) override {
      ++count;
      queue->Schedule(std::move(work));
    }
    int num_workers() const override { return queue->num_workers(); }

    WorkQueue* const queue;
    std::atomic<int64_t> count = 0;
  };

  explicit MemberCalls(WorkQueue* queue) : queue_(queue) {}

  CountingQueue queue_;
  std::unique_ptr<LocalGroup> group_;
  std::shared_ptr<CollectiveExecutor> executor_;
  std::map<std::string, std::shared_ptr<const CollectiveRequest>> requests_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_MEMBER_CALLS_H_
