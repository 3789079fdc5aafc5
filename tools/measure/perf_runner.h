#ifndef TUTTI_TOOLS_MEASURE_PERF_RUNNER_H_
#define TUTTI_TOOLS_MEASURE_PERF_RUNNER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/cluster/party.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_plan.h"
#include "tutti/collective.h"
#include "tutti/environment.h"

namespace tutti {

// Whether the error means that the algorithm does not support the request.
bool IsRefusal(const absl::Status& status);

// Runs collectives on a party's devices repeatedly and measures the time. Not
// thread-safe.
class PerfRunner {
 public:
  struct Options {
    int warmup = 0;
    int iterations = 1;
    bool check = false;
    absl::Duration deadline = absl::InfiniteDuration();  // Per execution.
    // Lowest level accepted.
    Determinism determinism = Determinism::kNotGuaranteed;
    std::vector<int> rank_list;  // As CollImplDetails::rank_list.
  };

  // The parts of `environment` outlive the object.
  PerfRunner(const Environment& environment, const Options& options,
             std::unique_ptr<Party> party)
      : environment_(environment),
        options_(options),
        party_(std::move(party)) {}
  PerfRunner(const PerfRunner&) = delete;
  PerfRunner& operator=(const PerfRunner&) = delete;

  Party& party() { return *party_; }

  // Runs `warmup` untimed executions, then `iterations` timed ones; all tasks
  // begin each of them together. The result covers all tasks, and names the
  // implementation that ran; if `algorithm` is empty, the library chooses it.
  // Errors: those of the collective, such as DEADLINE_EXCEEDED.
  absl::StatusOr<Measurement> Measure(PerfBuffers* buffers,
                                      const std::string& algorithm);

  // Runs one untimed execution, which all tasks begin together. Returns this
  // task's status only; other tasks may get another one.
  absl::Status Try(PerfBuffers* buffers, const std::string& algorithm);

 private:
  using Requests = std::vector<std::shared_ptr<const CollectiveRequest>>;

  // Makes requests with an instance key that was not used before. Their step
  // has the same number; CleanUpStep() ends it.
  Requests MakeRequests(const Workload& workload, const std::string& algorithm);

  void CleanUpStep() { party_->manager().Cleanup(last_instance_); }
  absl::StatusOr<absl::Duration> RunTogether(const Requests& requests,
                                             PerfBuffers* buffers);
  absl::StatusOr<std::vector<RankBuffers>> OnDevices(
      const std::vector<RankBuffers>& ranks);
  absl::Status FetchOutputs(const std::vector<RankBuffers>& on_devices,
                            std::vector<RankBuffers>* ranks);
  absl::Status CombineTasks(Measurement* measurement);
  absl::StatusOr<absl::Duration> RunOnce(const Requests& requests,
                                         std::vector<RankBuffers>* ranks);

  // Name of the implementation that runs the requests; "auto" if unknown.
  std::string NameOfChoice(const Requests& requests);

  const Environment environment_;
  const Options options_;
  const std::unique_ptr<Party> party_;
  int64_t last_instance_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PERF_RUNNER_H_
