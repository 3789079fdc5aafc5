#include "bench/gpu/suite_report.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/gpu/check.h"
#include "bench/gpu/ring_trace.h"
#include "nlohmann/json.hpp"
#include "tools/base/text_table.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

// The time that the host took to put all steps on the streams. Of these none
// ran before: otherwise there is no trace (TraceRing()).
std::vector<std::string> TraceRow(const RingTrace& trace) {
  const absl::Duration took = trace.back().returned - trace.front().called;
  return {"",
          absl::StrCat("host puts ", trace.size(), " steps"),
          absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(took)),
          "",
          "0 ran before",
          "met"};
}

// One row for each that took turns, and one for a trace.
std::vector<std::vector<std::string>> Rows(const std::string& name,
                                           const BenchResult& result) {
  std::vector<std::vector<std::string>> rows;
  for (const Contender& contender : result.contenders) {
    const double seconds = Median(contender.seconds);
    const double rate = static_cast<double>(result.num_bytes) / seconds / 1e9;
    rows.push_back(
        {rows.empty() ? name : "", contender.name,
         absl::StrFormat("%.1f", 1e6 * seconds),
         result.num_bytes == 0 ? "" : absl::StrFormat("%.0f", rate)});
  }
  const Aim& aim = result.aim;
  rows[0].push_back(absl::StrFormat("%.4g %s", aim.found, aim.unit));
  rows[0].push_back(aim.is_met() ? "met" : "MISSED");
  if (!result.trace.empty()) rows.push_back(TraceRow(result.trace));
  return rows;
}

// In seconds, from when the streams were let go.
Json TraceJson(const RingTrace& trace) {
  Json json = Json::array();
  for (const RingStep& step : trace) {
    json.push_back({{"rank", step.rank},
                    {"step", step.step},
                    {"called", absl::ToDoubleSeconds(step.called)},
                    {"returned", absl::ToDoubleSeconds(step.returned)}});
    if (!step.run.has_value()) continue;
    json.back()["began"] = step.run->began;
    json.back()["ended"] = step.run->ended;
  }
  return json;
}

Json StatusJson(const std::string& name, const absl::Status& status) {
  Json json = {{"name", name}, {"passed", status.ok()}};
  if (!status.ok()) json["message"] = status.ToString();
  return json;
}

Json AimJson(const Aim& aim) {
  return {{"what", aim.what},
          {"found", aim.found},
          {"wanted", aim.wanted},
          {"bound", aim.bound == Aim::Bound::kAtLeast ? "at least" : "at most"},
          {"unit", aim.unit},
          {"met", aim.is_met()}};
}

}  // namespace

absl::Status SuiteReport::SayGpus(GpuRuntime& runtime) {
  const absl::StatusOr<int> num_gpus = runtime.NumGpus();
  if (!num_gpus.ok()) return num_gpus.status();
  for (int gpu = 0; gpu < *num_gpus; ++gpu) {
    const auto properties = runtime.Properties(gpu);
    if (!properties.ok()) return properties.status();
    gpus_.push_back(
        absl::StrCat(properties->name, ", ", properties->num_multiprocessors,
                     " multiprocessors, ", properties->memory_bytes >> 20,
                     " MiB, at ", properties->bus_id));
    out_ << "GPU " << gpu << ": " << gpus_.back() << std::endl;
  }
  return absl::OkStatus();
}

void SuiteReport::SayNccl(
    const absl::StatusOr<std::shared_ptr<NcclRuntime>>& nccl) {
  if (!nccl.ok()) return;  // It is among what is left out.
  nccl_ = (*nccl)->Version();
  out_ << "NCCL " << nccl_;
  const std::string& why = (*nccl)->WhyBlocking();
  if (!why.empty()) out_ << ", within one process alone: " << why;
  out_ << std::endl;
}

void SuiteReport::Begin(const std::string& name) { current_ = name; }

void SuiteReport::EndCheck(const absl::Status& status, absl::Duration took) {
  Say(current_, status);
  checks_.push_back({.name = current_, .status = status, .took = took});
}

void SuiteReport::EndBench(const absl::StatusOr<BenchResult>& result) {
  if (absl::IsResourceExhausted(result.status())) {
    return LeaveOut(absl::StrCat(current_, ": ", result.status().message()));
  }
  const bool has_passed = Say(current_, result.status());
  benches_.push_back({.name = current_, .status = result.status()});
  if (!has_passed) return;
  benches_.back().result = *result;
  const Aim& aim = result->aim;
  out_ << (aim.is_met() ? "  met:    " : "  MISSED: ") << aim.ToString()
       << std::endl;
}

void SuiteReport::LeaveOut(const std::string& reason) {
  left_out_.push_back(reason);
  out_ << "LEFT OUT: " << reason << std::endl;
}

void SuiteReport::SayTable() const {
  std::vector<std::vector<std::string>> rows;
  for (const BenchEntry& bench : benches_) {
    if (!bench.status.ok()) continue;
    for (auto& row : Rows(bench.name, bench.result)) {
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) return;
  TextTable table({{"benchmark", Align::kLeft},
                   {"what", Align::kLeft},
                   {"p50 [us]"},
                   {"GB/s"},
                   {"found"},
                   {"aim", Align::kLeft}});
  table.Fit(rows);
  out_ << '\n' << table.Header();
  for (const auto& row : rows) out_ << table.Row(row);
  out_ << '\n';
}

void SuiteReport::SayEnd() {
  SayTable();
  std::string missed;
  for (const BenchEntry& bench : benches_) {
    if (!bench.status.ok() || bench.result.aim.is_met()) continue;
    absl::StrAppend(&missed, "  MISSED: ", bench.name, ": ",
                    bench.result.aim.ToString(), "\n");
  }
  out_ << missed << num_passed_ << " passed, " << num_failed_ << " failed, "
       << left_out_.size() << " left out" << std::endl;
}

std::string SuiteReport::ToJson() const {
  Json json = {{"gpus", gpus_},           {"nccl", nccl_},
               {"checks", Json::array()}, {"benchmarks", Json::array()},
               {"left_out", left_out_},   {"passed", num_passed_},
               {"failed", num_failed_}};
  for (const Entry& check : checks_) {
    Json entry = StatusJson(check.name, check.status);
    entry["seconds"] = absl::ToDoubleSeconds(check.took);
    json["checks"].push_back(std::move(entry));
  }
  for (const BenchEntry& bench : benches_) {
    Json entry = StatusJson(bench.name, bench.status);
    if (bench.status.ok()) {
      entry["aim"] = AimJson(bench.result.aim);
      entry["bytes"] = bench.result.num_bytes;
      for (const Contender& contender : bench.result.contenders) {
        entry["seconds"][contender.name] = contender.seconds;
      }
      if (!bench.result.trace.empty()) {
        entry["trace"] = TraceJson(bench.result.trace);
      }
    }
    json["benchmarks"].push_back(std::move(entry));
  }
  // Names of GPUs are the driver's: it may write anything.
  return json.dump(/*indent=*/2, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

bool SuiteReport::Say(const std::string& name, const absl::Status& status) {
  ++(status.ok() ? num_passed_ : num_failed_);
  out_ << (status.ok() ? "passed    " : "FAILED    ") << name;
  if (!status.ok()) out_ << ": " << status;
  out_ << std::endl;
  return status.ok();
}

void RunChecks(const CheckList& list, const std::string& filter,
               SuiteMachine& machine, SuiteReport& report) {
  Clock& clock = *machine.environment().clock;
  for (const std::string& reason : list.left_out) report.LeaveOut(reason);
  for (const Check& check : list.checks) {
    if (!absl::StrContains(check.name, filter)) continue;
    report.Begin(check.name);
    const absl::Time start = clock.Now();
    const absl::Status status = check.run(machine);
    report.EndCheck(status, clock.Now() - start);
  }
}

void RunBenches(const BenchList& list, const std::string& filter,
                const BenchMachine& bench, SuiteReport& report) {
  for (const std::string& reason : list.left_out) report.LeaveOut(reason);
  for (const BenchCase& each : list.cases) {
    if (!absl::StrContains(each.name, filter)) continue;
    report.Begin(each.name);
    report.EndBench(each.run(bench));
  }
}

}  // namespace tutti
