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
#include "tests/cluster/tasks_in_process.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

// All-reduces of several members in each of several processes. The processes
// are tasks in this one: tests/processes/process_matrix_test.py runs them as
// processes.

namespace tutti {

// Of what is registered here: ThenRing, ThenHalving and ThenTrees are as
// LocalThenRing, LocalThenRecursiveHalvingDoubling and LocalThenDoubleTree, in
// such chunks.
inline constexpr int64_t kChunkElements = 16;
inline constexpr int64_t kChunkBytes = kChunkElements * sizeof(int32_t);

// Tasks with some CPU devices each. Ranks are theirs one task after the other,
// or dealt out in turn. Without threads: what is called runs on the test's, or
// when it runs the environment's work.
class Processes {
 public:
  // One member's call, of which the buffers stay.
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

  // An all-reduce among all, to change.
  CollectiveRequest Request(std::string name, DType dtype,
                            int64_t num_elements) const;

  CollectiveArgs ArgsOf(int rank, CollectiveRequest request, Call& call,
                        bool in_place);
  CollectiveExecutor& executor(int rank);

  void Start(int rank, const CollectiveRequest& request, Call& call,
             bool in_place = false,
             absl::Time deadline = absl::InfiniteFuture());

  // Calls for all ranks and runs all work.
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

// One of each rank, not started.
std::vector<Processes::Call> RandomCalls(const Processes& processes,
                                         DType dtype, int64_t num_elements,
                                         uint64_t seed = 1);

// What all get: tasks are reduced in rank order, then merged in their order.
Bytes Expected(const CollectiveRequest& request,
               const std::vector<int>& task_of,
               const std::vector<Processes::Call>& calls);

void ExpectAll(const std::vector<Processes::Call>& calls,
               const Bytes& expected);

// Fails after so many calls, which it counts in `num_calls`.
MergeOp CustomSum(bool commutative, int* num_calls, int num_good = INT_MAX);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_TESTING_H_
