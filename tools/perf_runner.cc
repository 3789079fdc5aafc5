#include "tools/perf_runner.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tools/timed_run.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<PerfRunner>> PerfRunner::Create(
    const Environment& environment, const Options& options) {
  auto group = LocalGroup::Create(environment, options.tasks,
                                  options.devices / options.tasks);
  if (!group.ok()) return group.status();
  return std::unique_ptr<PerfRunner>(
      new PerfRunner(environment, options, *std::move(group)));
}

PerfRunner::PerfRunner(const Environment& environment, const Options& options,
                       std::unique_ptr<LocalGroup> group)
    : environment_(environment), options_(options), group_(std::move(group)) {}

PerfRunner::Requests PerfRunner::MakeRequests(const Workload& workload,
                                              const std::string& algorithm) {
  ++last_instance_;
  Requests requests;
  for (int rank = 0; rank < workload.group_size; ++rank) {
    CollectiveRequest request = RequestOf(workload, rank);
    request.instance_key = last_instance_;
    request.impl_details.implementation = algorithm;
    requests.push_back(
        std::make_shared<const CollectiveRequest>(std::move(request)));
  }
  return requests;
}

absl::StatusOr<Measurement> PerfRunner::Measure(PerfBuffers* buffers,
                                                const std::string& algorithm) {
  const Requests requests = MakeRequests(buffers->workload(), algorithm);
  const int64_t step_id = last_instance_;
  const auto executor = group_->manager().FindOrCreate(step_id);
  const auto cleaned_up =
      absl::MakeCleanup([&] { group_->manager().Cleanup(step_id); });
  return MeasureIn(executor.get(), requests, buffers);
}

absl::StatusOr<Measurement> PerfRunner::MeasureIn(CollectiveExecutor* executor,
                                                  const Requests& requests,
                                                  PerfBuffers* buffers) {
  Measurement measurement;
  int64_t wrong = 0;
  const int64_t total = int64_t{options_.warmup} + options_.iterations;
  for (int64_t i = 0; i < total; ++i) {
    const auto time = RunOnce(executor, requests, buffers);
    if (!time.ok()) return time.status();
    if (i < options_.warmup) continue;
    measurement.times.push_back(*time);
    if (options_.check) wrong += buffers->CountWrong();
  }
  if (options_.check) measurement.wrong = wrong;
  measurement.algorithm = NameOfChoice(requests);
  return measurement;
}

absl::StatusOr<absl::Duration> PerfRunner::RunOnce(CollectiveExecutor* executor,
                                                   const Requests& requests,
                                                   PerfBuffers* buffers) {
  std::vector<RankBuffers>& ranks = buffers->Next();
  std::vector<CollectiveArgs> calls(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    calls[rank].device = group_->devices()[rank];
    calls[rank].request = requests[rank];
    calls[rank].input = ranks[rank].input;
    if (ranks[rank].output.is_set()) calls[rank].output = &ranks[rank].output;
  }
  return TimedRun(
      [executor](CollectiveArgs args, StatusCallback done) {
        executor->ExecuteAsync(std::move(args), std::move(done));
      },
      environment_.clock, std::move(calls));
}

std::string PerfRunner::NameOfChoice(const Requests& requests) {
  std::string name = "auto";
  // Asks for all ranks, since the resolver keeps an instance until all have
  // asked equally often. They are known there: nobody waits.
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    group_->manager().param_resolver().CompleteParamsAsync(
        group_->devices()[rank]->attributes(), requests[rank],
        /*cancellation=*/nullptr, [&name](auto params) {
          if (!params.ok()) return;
          name = (*params)->instance->impl_details.implementation;
        });
  }
  return name;
}

}  // namespace tutti
