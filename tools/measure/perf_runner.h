#ifndef TUTTI_TOOLS_MEASURE_PERF_RUNNER_H_
#define TUTTI_TOOLS_MEASURE_PERF_RUNNER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/cluster/party.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_row.h"
#include "tutti/collective.h"
#include "tutti/environment.h"

namespace tutti {

// Whether an algorithm merely does not serve such a request.
bool IsRefusal(const absl::Status& status);

// Runs collectives on a party's devices again and again, and takes the time.
// Not thread-safe.
class PerfRunner {
 public:
  struct Options {
    int warmup = 0;
    int iterations = 1;
    bool check = false;
    absl::Duration deadline = absl::InfiniteDuration();  // Of each execution.
    Determinism determinism = Determinism::kNotGuaranteed;  // Wanted at least.
    std::vector<int> rank_list;  // As CollImplDetails::rank_list.
  };

  // `environment`'s parts outlive the object.
  PerfRunner(const Environment& environment, const Options& options,
             std::unique_ptr<Party> party)
      : environment_(environment),
        options_(options),
        party_(std::move(party)) {}
  PerfRunner(const PerfRunner&) = delete;
  PerfRunner& operator=(const PerfRunner&) = delete;

  Party& party() { return *party_; }

  // One untimed execution for each of `warmup`, then `iterations` timed ones,
  // each begun by all tasks together; what comes of it is that of all tasks.
  // The measurement names the implementation that ran; an empty `algorithm`
  // leaves it to the library. Errors: those of the collective, such as
  // DEADLINE_EXCEEDED.
  absl::StatusOr<Measurement> Measure(PerfBuffers* buffers,
                                      const std::string& algorithm);

  // One untimed execution, begun by all tasks together. What comes of it is
  // that of this task alone; other tasks may have another error, or none.
  absl::Status Try(PerfBuffers* buffers, const std::string& algorithm);

 private:
  using Requests = std::vector<std::shared_ptr<const CollectiveRequest>>;

  // For another instance than all before.
  Requests MakeRequests(const Workload& workload, const std::string& algorithm);

  // Calls `run` once, in a step that is cleaned up after it.
  void InOwnStep(
      const Workload& workload, const std::string& algorithm,
      absl::FunctionRef<void(CollectiveExecutor*, const Requests&)> run);
  absl::StatusOr<Measurement> MeasureIn(CollectiveExecutor* executor,
                                        const Requests& requests,
                                        PerfBuffers* buffers);
  absl::StatusOr<absl::Duration> RunTogether(CollectiveExecutor* executor,
                                             const Requests& requests,
                                             PerfBuffers* buffers);
  absl::Status CombineTasks(Measurement* measurement);
  absl::StatusOr<absl::Duration> RunOnce(CollectiveExecutor* executor,
                                         const Requests& requests,
                                         std::vector<RankBuffers>* ranks);

  // The implementation that runs them; "auto" if that cannot be told.
  std::string NameOfChoice(const Requests& requests);

  const Environment environment_;
  const Options options_;
  const std::unique_ptr<Party> party_;
  int64_t last_instance_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PERF_RUNNER_H_
