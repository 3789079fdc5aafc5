#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_TESTING_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_TESTING_H_

#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then.h"
#include "implementations/two_level/local_then_outline.h"
#include "implementations/two_level/local_then_plan.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "tests/cluster/tasks_in_process.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

// Runs all-reduces of several members in each of several processes. The
// processes are tasks in this process; tests/processes/matrix.h has real ones.

namespace tutti {

// Makes a Hierarchical<"LocalReduce", ...>() (tutti/schedule.h) with chunks of
// any size and a registered schedule between processes:
//   REGISTER_COLLECTIVE(ThenStar, LocalThenFactory<"StarReduce">());
template <ImplementationName between,
          int64_t chunk_bytes = kLocalThenChunkBytes>
std::shared_ptr<const CollectiveFactory> LocalThenFactory() {
  return MakeLocalThenFactory(
      std::string(between.view()), chunk_bytes,
      {.traits = {.check_parts =
                      [] {
                        return FindInterTaskLevel(between.view()).status();
                      },
                  .cost_seconds =
                      [](const CostQuery& query) {
                        return LocalThenSeconds(between.view(), chunk_bytes,
                                                query);
                      }},
       .plan =
           [](const PlanRequest& request) {
             return PlanLocalThen(between.view(), request);
           },
       .subdivide =
           [](const SubdivisionRequest& request) {
             return SubdivideLocalThen(between.view(), chunk_bytes, request);
           },
       .outline =
           [](const PlanRequest& request) {
             return LocalThenOutline(between.view(), request);
           }});
}

// Chunk size of the implementations registered here. ThenRing, ThenHalving and
// ThenTrees are LocalThenRing, LocalThenRecursiveHalvingDoubling and
// LocalThenDoubleTree with such chunks.
inline constexpr int64_t kChunkElements = 16;
inline constexpr int64_t kChunkBytes = kChunkElements * sizeof(int32_t);

// Tasks with some CPU devices each. Ranks follow task after task, or are dealt
// out to tasks in turn. Without threads: calls run on the test's thread, or
// when the test runs the environment's work.
class Processes {
 public:
  // The call of one member. Its buffers outlive the execution.
  struct Call {
    Bytes input;
    Tensor output;
    std::optional<absl::Status> status;  // Unset until `done`.

    Bytes result() const {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(output.data());
      return {bytes, bytes + output.size_bytes()};
    }
  };

  explicit Processes(const std::vector<int>& num_devices, uint64_t seed = 1,
                     bool in_turn = false);

  int size() const { return static_cast<int>(task_of_.size()); }
  SimulatedEnvironment& environment() { return environment_; }
  const std::vector<int>& task_of() const { return task_of_; }

  // Returns an all-reduce among all ranks, which tests may change.
  CollectiveRequest Request(std::string name, DType dtype,
                            int64_t num_elements) const;

  CollectiveArgs ArgsOf(int rank, CollectiveRequest request, Call& call,
                        bool in_place);
  CollectiveExecutor& executor(int rank);

  void Start(int rank, const CollectiveRequest& request, Call& call,
             bool in_place = false,
             absl::Time deadline = absl::InfiniteFuture());

  // Starts a call on every rank and runs all work.
  void RunAll(const CollectiveRequest& request, std::vector<Call>& calls,
              bool in_place = false);

  void EndGroup(absl::Status reason) {
    together_.EndGroup(1, std::move(reason));
  }

 private:
  struct Task {
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
  };

  SimulatedEnvironment environment_;
  TasksInProcess together_;
  std::vector<int> task_of_;  // By rank.
  std::vector<Task> tasks_;
};

// Returns one call for each rank, not started.
std::vector<Processes::Call> RandomCalls(const Processes& processes,
                                         DType dtype, int64_t num_elements,
                                         uint64_t seed = 1);

// Returns the result of all ranks: tasks are reduced in rank order, and their
// sums merged in task order.
Bytes Expected(const CollectiveRequest& request,
               const std::vector<int>& task_of,
               const std::vector<Processes::Call>& calls);

void ExpectAll(const std::vector<Processes::Call>& calls,
               const Bytes& expected);

// Returns a sum that counts its calls in `num_calls`, and fails after
// `num_good` calls.
MergeOp CustomSum(bool commutative, int* num_calls, int num_good = INT_MAX);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_TESTING_H_
