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
#include "tools/measure/tuned_rules.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Measures one point after another, those of a layout on the same devices, and
// in a cluster with the other tasks, which do the same. For one thread, which
// may block.
class Tuner {
 public:
  // What came of a question: the same on all tasks, but for how they word an
  // error.
  struct Answer {
    TunedPoint point;
    std::map<std::string, absl::Status> refused;  // What was left out, why.
  };

  // `environment`'s parts outlive the object.
  Tuner(const TuneOptions& options, const Environment& environment,
        PartyFactory make_party)
      : options_(options),
        environment_(environment),
        make_party_(std::move(make_party)) {}
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  // Makes the party of a layout, unless it is the present one.
  absl::Status SetLayout(const GroupLayout& layout);

  // REQUIRES: the last SetLayout() has succeeded.
  Party& party() { return runner_->party(); }

  // By all algorithms that could be named. Those that refuse are left out, if
  // others serve. Errors: also those of SetLayout().
  absl::StatusOr<Answer> Measure(const TuneQuestion& question);

  // As that of the present party, if there is one.
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
