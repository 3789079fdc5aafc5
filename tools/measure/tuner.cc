#include "tools/measure/tuner.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/measure/perf_row.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

// Algorithms that can be named, with or without a cost model: the same on all
// tasks.
std::vector<std::string> AlgorithmsFor(const TuneQuestion& question,
                                       const SelectionPolicy& policy) {
  std::vector<std::string> names;
  for (const auto& entry : policy.registry->List()) {
    SelectionRequest request = RequestFor(question, policy);
    request.implementation = entry.name;
    if (SelectImplementation(policy, request).ok()) {
      names.push_back(entry.name);
    }
  }
  return names;
}

// Adds the algorithm's name to its error.
absl::Status Named(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

enum class Verdict : uint8_t { kServes, kRefuses, kFails };

Verdict VerdictOf(const absl::Status& status) {
  if (status.ok()) return Verdict::kServes;
  return IsRefusal(status) ? Verdict::kRefuses : Verdict::kFails;
}

// Worst verdict of all tasks. Errors: those of Party::Combine().
absl::StatusOr<Verdict> AgreeOnVerdict(Party* party, Verdict mine) {
  auto worst = static_cast<int64_t>(mine);
  RETURN_IF_ERROR(party->Combine(ReductionKind::kMax, {&worst, 1}));
  return static_cast<Verdict>(worst);
}

}  // namespace

absl::Status Tuner::SetLayout(const GroupLayout& layout) {
  if (runner_ != nullptr && layout_ == layout) return absl::OkStatus();
  RETURN_IF_ERROR(Leave(absl::OkStatus()));
  runner_ = nullptr;
  ASSIGN_OR_RETURN(auto party, make_party_(layout.size(), layout.num_tasks()));
  layout_ = layout;
  runner_ = std::make_unique<PerfRunner>(
      environment_,
      PerfRunner::Options{.warmup = 1,
                          .iterations = options_.iterations,
                          .deadline = DurationOf(options_.deadline_seconds)},
      std::move(party));
  return absl::OkStatus();
}

absl::StatusOr<Tuner::Answer> Tuner::Measure(const TuneQuestion& question) {
  RETURN_IF_ERROR(SetLayout(question.layout));
  const auto buffers = PerfBuffers::Create(question.workload, question.ranks,
                                           BufferOptions(), environment_.queue);
  RETURN_IF_ERROR(party().Agree(buffers.status()));
  Answer answer{.point = {.type = question.workload.spec.type,
                          .layout = question.layout,
                          .one_process = question.one_process(),
                          .bytes = BytesOf(question.workload)}};
  ASSIGN_OR_RETURN(const auto names,
                   FindServing(question, buffers->get(), &answer));
  for (TimesByAlgorithm* times :
       {&answer.point.to_choose, &answer.point.to_judge}) {
    ASSIGN_OR_RETURN(*times, MeasureRounds(names, buffers->get()));
  }
  return answer;
}

// Agrees on each algorithm: a task on which it succeeds may learn only here
// that another task refused.
absl::StatusOr<std::vector<std::string>> Tuner::FindServing(
    const TuneQuestion& question, PerfBuffers* buffers, Answer* answer) {
  std::vector<std::string> serving;
  absl::Status refusal = absl::NotFoundError("no algorithm can serve");
  for (const std::string& name : AlgorithmsFor(question, party().policy())) {
    const absl::Status tried = runner_->Try(buffers, name);
    const auto verdict = AgreeOnVerdict(&party(), VerdictOf(tried));
    if (!verdict.ok()) {
      return Named(name, tried.ok() ? verdict.status() : tried);
    }
    if (*verdict == Verdict::kServes) {
      serving.push_back(name);
      continue;
    }
    // Hides this task's refusal if another task failed.
    const bool counts = VerdictOf(tried) == *verdict;
    const absl::Status why = party().Agree(counts ? tried : absl::OkStatus());
    if (*verdict == Verdict::kFails) return Named(name, why);
    answer->refused[name] = why;
    refusal = Named(name, why);
  }
  if (serving.empty()) return refusal;
  return serving;
}

// Measures rounds of all algorithms; returns the medians.
absl::StatusOr<TimesByAlgorithm> Tuner::MeasureRounds(
    const std::vector<std::string>& names, PerfBuffers* buffers) {
  std::map<std::string, std::vector<absl::Duration>> times;
  absl::Duration taken;  // Equal on all tasks, as their times are.
  for (int round = 0; WantsAnotherRound(options_, round, taken); ++round) {
    for (const std::string& name : names) {
      const auto measured = runner_->Measure(buffers, name);
      if (!measured.ok()) return Named(name, measured.status());
      auto& all = times[name];
      all.insert(all.end(), measured->times.begin(), measured->times.end());
      taken += absl::c_accumulate(measured->times, absl::Duration());
    }
  }
  TimesByAlgorithm medians;
  for (const auto& [name, all] : times) {
    medians[name] = absl::ToDoubleSeconds(Percentile(all, 50));
  }
  return medians;
}

absl::Status Tuner::Leave(const absl::Status& outcome) {
  return runner_ == nullptr ? outcome : party().Leave(outcome);
}

}  // namespace tutti
