#include "bench/gpu/bench_turns.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tutti/collective.h"

namespace tutti {
namespace {

constexpr char kLeftOut[] = "LEFT OUT: ";

double TakeTurn(const GpuMachine& machine, int num_calls,
                const Contender& contender) {
  const auto finish = [&] {
    if (contender.finish != nullptr) return contender.finish();
    Ok(machine.waiter.WaitFor(contender.stream));
  };
  if (contender.hold != nullptr) contender.hold();
  contender.call();
  if (contender.ends_on_host) finish();
  Ok(machine.timing.Start(contender.stream));
  for (int i = 0; i < num_calls; ++i) contender.call();
  if (contender.ends_on_host) finish();
  Ok(machine.timing.Stop(contender.stream));
  finish();
  return machine.timing.Seconds().value() / num_calls;
}

class FailureCounter : public benchmark::ConsoleReporter {
 public:
  FailureCounter() : ConsoleReporter(OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred &&
          !absl::StartsWith(run.error_message, kLeftOut)) {
        ++num_failures_;
      }
    }
    ConsoleReporter::ReportRuns(runs);
  }

  int num_failures() const { return num_failures_; }

 private:
  int num_failures_ = 0;
};

GroupShape GroupOf(const GpuMachine& machine, const BenchShape& shape,
                   bool for_nccl) {
  if (!for_nccl) return {.devices_per_gpu = shape.num_members};
  return {.gpus_per_task = shape.num_members, .nccl = *machine.nccl};
}

}  // namespace

int BenchScale::Calls(int64_t num_bytes) const {
  return static_cast<int>(std::clamp<int64_t>(turn_bytes / num_bytes, 4, 50));
}

TurnTimes TakeTurns(benchmark::State& state, const BenchMachine& bench,
                    int num_calls, int64_t num_bytes,
                    const std::vector<Contender>& contenders) {
  for (const Contender& contender : contenders) {
    TakeTurn(bench.machine, num_calls, contender);
  }
  TurnTimes times(contenders.size());
  for (auto _ : state) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      times[i].push_back(TakeTurn(bench.machine, num_calls, contenders[i]));
    }
    state.SetIterationTime(times[0].back());
  }
  state.SetBytesProcessed(state.iterations() * num_bytes);
  for (size_t i = 0; i < contenders.size(); ++i) {
    state.counters[absl::StrCat(contenders[i].name, "_us")] =
        1e6 * Median(times[i]);
  }
  return times;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double MedianBesideFastest(
    const TurnTimes& times, size_t other,
    const std::function<double(double first, double fastest)>& compare) {
  std::vector<double> found;
  for (size_t round = 0; round < times[0].size(); ++round) {
    double fastest = times[other][round];
    for (size_t i = other; i < times.size(); ++i) {
      fastest = std::min(fastest, times[i][round]);
    }
    found.push_back(compare(times[0][round], fastest));
  }
  return Median(std::move(found));
}

void Report(benchmark::State& state, const Aim& aim) {
  state.counters[aim.counter] = aim.found;
  const bool is_met =
      aim.is_least ? aim.found >= aim.wanted : aim.found <= aim.wanted;
  state.SetLabel(absl::StrCat(is_met ? "met" : "MISSED", ": ", aim.counter,
                              " at ", aim.is_least ? "least " : "most ",
                              aim.wanted));
}

std::string BenchShape::Name(const std::string& implementation) const {
  return absl::StrCat(implementation, "/", tutti::Name(dtype),
                      "/members:", num_members, "/bytes:", num_bytes);
}

BenchBuffers::BenchBuffers(GpuMachine& machine, const BenchShape& shape,
                           bool for_nccl)
    : shape_(shape), group_(machine, GroupOf(machine, shape, for_nccl)) {
  const int64_t length = shape.num_elements();
  for (auto [all, parts] : {std::pair(&all_inputs_, &inputs_),
                            std::pair(&all_outputs_, &outputs_)}) {
    if (!for_nccl) {
      *all = group_.Allocate(0, shape.dtype, shape.num_members * length);
    }
    for (int rank = 0; rank < shape.num_members; ++rank) {
      parts->push_back(
          for_nccl ? group_.Allocate(rank, shape.dtype, length)
                   : all->Slice(rank * length, (rank + 1) * length).value());
    }
  }
  // Streams of others come to the memory later.
  group_.Finish();
}

Contender BenchBuffers::Reduction(const std::string& implementation) {
  const auto request = std::make_shared<CollectiveRequest>(
      group_.Request(AllReduce{}, shape_.dtype, shape_.num_elements()));
  request->impl_details.implementation = implementation;
  return {.name = implementation,
          .call =
              [this, request] {
                for (int rank = 0; rank < group_.size(); ++rank) {
                  group_.Call(rank, request, inputs_[rank], &outputs_[rank]);
                }
              },
          .stream = group_.device(0).compute_stream(),
          .finish = [this] { group_.Finish(); }};
}

std::vector<Contender> BenchBuffers::Copies() {
  GpuRuntime& runtime = group_.machine().runtime;
  const GpuStream stream = group_.device(0).compute_stream();
  const size_t size = all_inputs_.size_bytes();
  const std::byte* const from = all_inputs_.data();
  std::byte* const to = all_outputs_.mutable_data();
  return {
      {.name = "copy_kernel",
       .call =
           [&runtime, stream, from, to, size] {
             Ok(runtime.LaunchCopy(
                 {.input = from, .outputs = {to}, .num_bytes = size}, stream));
           },
       .stream = stream},
      {.name = "cudaMemcpyAsync",
       .call = [&runtime, stream, from, to,
                size] { Ok(runtime.CopyAsync(to, from, size, stream)); },
       .stream = stream}};
}

void Register(const BenchMachine& bench, const std::string& name,
              std::function<void(benchmark::State& state)> run) {
  const auto run_or_skip = [run = std::move(run)](benchmark::State& state) {
    try {
      run(state);
    } catch (const absl::BadStatusOrAccess& error) {
      const absl::Status& status = error.status();
      state.SkipWithError(
          absl::StrCat(absl::IsResourceExhausted(status) ? kLeftOut : "",
                       status.ToString())
              .c_str());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), run_or_skip)
      ->UseManualTime()
      ->Iterations(bench.scale.rounds)
      ->Unit(benchmark::kMicrosecond);
}

void RegisterLeftOut(const std::string& name, const std::string& why) {
  benchmark::RegisterBenchmark(name.c_str(), [why](benchmark::State& state) {
    state.SkipWithError(absl::StrCat(kLeftOut, why).c_str());
  });
}

int RunBenches() {
  FailureCounter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.num_failures();
}

}  // namespace tutti
