#ifndef TUTTI_TOOLS_MEASURE_TUNER_H_
#define TUTTI_TOOLS_MEASURE_TUNER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/cluster/party.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_runner.h"
#include "tools/measure/tune_plan.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Measures points one after another. Points with the same layout use the same
// devices. In a cluster all tasks measure together. For one thread, which may
// block.
class Tuner {
 public:
  // Result of a question. Equal on all tasks, except for the wording of errors.
  struct Answer {
    TunedPoint point;
    std::map<std::string, absl::Status> refused;  // Skipped, and why.
  };

  // The parts of `environment` outlive the object.
  Tuner(const TuneOptions& options, const Environment& environment,
        PartyFactory make_party)
      : options_(options),
        environment_(environment),
        make_party_(std::move(make_party)) {}
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  // Makes the party of a layout, unless it already is the current one.
  absl::Status SetLayout(const GroupLayout& layout);

  // REQUIRES: the last SetLayout() has succeeded.
  Party& party() { return runner_->party(); }

  // Measures all algorithms that can be named. Skips those that refuse if
  // others succeed. Errors: also those of SetLayout().
  absl::StatusOr<Answer> Measure(const TuneQuestion& question);

  // Calls Leave() of the current party, if there is one.
  absl::Status Leave(const absl::Status& outcome);

 private:
  absl::StatusOr<std::vector<std::string>> FindServing(
      const TuneQuestion& question, PerfBuffers* buffers, Answer* answer);
  absl::StatusOr<TimesByAlgorithm> MeasureRounds(
      const std::vector<std::string>& names, PerfBuffers* buffers);

  const TuneOptions options_;
  const Environment environment_;
  const PartyFactory make_party_;
  GroupLayout layout_ = GroupLayout::Uniform(1, 1);
  std::unique_ptr<PerfRunner> runner_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TUNER_H_
