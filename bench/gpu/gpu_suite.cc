// Checks and measures Tutti on the GPUs of this machine: docs/gpu.md.
//
// Exit status: 0 if all passed, 1 if something failed, 2 for bad usage, 3 if
// there is no GPU.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bench/gpu/bench_case.h"
#include "bench/gpu/bench_list.h"
#include "bench/gpu/check.h"
#include "bench/gpu/check_list.h"
#include "bench/gpu/cuda_timing.h"
#include "bench/gpu/suite_machine.h"
#include "bench/gpu/suite_report.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/runtime/cuda_runtime.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kNoGpu = 3;

// What the sanitizers can do in some minutes.
constexpr CheckScale kShortChecks = {.large_elements = 10'007,
                                     .churn_bytes = int64_t{1} << 16,
                                     .rounds = 20,
                                     .holds_streams = false,
                                     .spoils_gpu = false};

struct Options {
  bool is_bench = false;
  bool is_short = false;
  std::string filter;
  std::string json;  // A file, or empty.
};

int Fail(int exit_status, absl::string_view why) {
  std::cerr << "gpu_suite: " << why << '\n';
  return exit_status;
}

absl::Status Write(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << text << '\n';
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("cannot write ", path));
}

int Finish(const Options& options, SuiteReport& report) {
  report.SayEnd();
  const absl::Status status = Write(options.json, report.ToJson());
  if (!status.ok()) return Fail(kFailed, status.message());
  return report.has_failures() ? kFailed : EXIT_SUCCESS;
}

// Its kernels are not ours for a sanitizer to watch.
absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclOf(const Options& options) {
  if (!options.is_short) return NcclHere();
  return absl::UnavailableError("not wanted in this run");
}

absl::Status RunAll(const Options& options, SuiteMachine& machine,
                    SuiteReport& report) {
  const auto nccl = NcclOf(options);
  report.SayNccl(nccl);
  const auto timing = CudaTiming::Create(/*gpu=*/0);
  if (!timing.ok()) return timing.status();
  if (!options.is_bench) {
    const auto list = AllChecks(machine.runtime(), nccl, **timing,
                                options.is_short ? kShortChecks : CheckScale());
    if (list.ok()) RunChecks(*list, options.filter, machine, report);
    return list.status();
  }
  const BenchMachine bench = {.machine = machine, .timing = **timing};
  const absl::StatusOr<int> num_gpus = machine.runtime().NumGpus();
  if (!num_gpus.ok()) return num_gpus.status();
  RunBenches(AllBenches(*num_gpus, nccl, bench.scale), options.filter, bench,
             report);
  return absl::OkStatus();
}

int RunSuite(const Options& options) {
  const DefaultEnvironment environment;
  CudaRuntime runtime;
  SuiteReport report(std::cout);
  absl::Status status = report.SayGpus(runtime);
  if (status.ok() && *runtime.NumGpus() == 0) {
    status = absl::NotFoundError("the driver knows of none");
  }
  if (!status.ok()) {
    return Fail(kNoGpu, absl::StrCat("no GPU: ", status.message()));
  }
  const auto give_up = [&](const absl::Status& late) {
    report.EndCheck(late, absl::InfiniteDuration());
    // The GPU may still use what is on the stack.
    std::_Exit(Finish(options, report));
  };
  BlockingMachine machine(runtime, environment.get(), {.give_up = give_up});
  status = RunAll(options, machine, report);
  if (!status.ok()) return Fail(kFailed, status.message());
  return Finish(options, report);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Checks and measures Tutti on the GPUs of this machine.",
               "gpu_suite");
  app.require_subcommand(1);
  CLI::App* const check = app.add_subcommand(
      "check", "results of all kernels, collectives and devices");
  CLI::App* const bench = app.add_subcommand(
      "bench", "times, beside those of plain copies and of NCCL");
  for (CLI::App* const command : {check, bench}) {
    command->add_option("--filter", options.filter,
                        "only those whose names contain this");
    command->add_option("--json", options.json, "also write a file");
  }
  check->add_flag("--short", options.is_short,
                  "small buffers, no NCCL, and nothing that spoils a GPU");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help.
    return Fail(kBadUsage, error.what());
  }
  options.is_bench = bench->parsed();
  return RunSuite(options);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
