#ifndef TUTTI_BENCH_GPU_SUITE_REPORT_H_
#define TUTTI_BENCH_GPU_SUITE_REPORT_H_

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/bench_case.h"
#include "bench/gpu/bench_list.h"
#include "bench/gpu/check_list.h"
#include "bench/gpu/suite_machine.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// What a run of the suite found: as text while it runs, as JSON at its end.
// Belongs to one thread.
class SuiteReport {
 public:
  // Texts go to `out`.
  explicit SuiteReport(std::ostream& out) : out_(out) {}

  // Which GPUs there are. Errors: as GpuRuntime::Properties.
  absl::Status SayGpus(GpuRuntime& runtime);

  // Which NCCL, if it is used.
  void SayNccl(const absl::StatusOr<std::shared_ptr<NcclRuntime>>& nccl);

  // A check or benchmark begins, and how it ended. One that needs more than the
  // machine has is left out.
  void Begin(const std::string& name);
  void EndCheck(const absl::Status& status, absl::Duration took);
  void EndBench(const absl::StatusOr<BenchResult>& result);
  void LeaveOut(const std::string& reason);

  // A table of times, and the sums: "N passed, N failed, N left out", and what
  // missed its aim.
  void SayEnd();

  // Aims do not matter.
  bool has_failures() const { return num_failed_ > 0; }
  std::string ToJson() const;

 private:
  struct Entry {
    std::string name;
    absl::Status status;
    absl::Duration took;
  };
  struct BenchEntry {
    std::string name;
    absl::Status status;
    BenchResult result;
  };

  void SayTable() const;

  // A line about it; whether it went well.
  bool Say(const std::string& name, const absl::Status& status);

  std::ostream& out_;
  std::string current_;
  std::vector<std::string> gpus_;
  std::string nccl_;  // Its version, or empty.
  std::vector<Entry> checks_;
  std::vector<BenchEntry> benches_;
  std::vector<std::string> left_out_;
  int num_passed_ = 0, num_failed_ = 0;
};

// One after the other, those whose names contain `filter`.
void RunChecks(const CheckList& list, const std::string& filter,
               SuiteMachine& machine, SuiteReport& report);
void RunBenches(const BenchList& list, const std::string& filter,
                const BenchMachine& bench, SuiteReport& report);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SUITE_REPORT_H_
