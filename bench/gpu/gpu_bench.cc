// Measures Tutti on the GPUs of this machine: docs/gpu.md.
//
// usage: gpu_bench [GOOGLE BENCHMARK'S FLAGS]
//
// Exit status: 0 if all ran, whether or not they met their aims, 1 if something
// failed, 2 for bad usage, 3 if there is no GPU.

#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/gpu/bench_turns.h"
#include "bench/gpu/cuda_machine.h"
#include "benchmark/benchmark.h"

namespace tutti {
namespace {

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return kBadUsage;
  const auto machine = CudaMachine::Create({});
  if (!machine.ok()) return ExitStatusWithout("gpu_bench", machine.status());
  int number = 0;
  for (const std::string& line : (*machine)->Description()) {
    benchmark::AddCustomContext(absl::StrCat("machine_", ++number), line);
  }
  const BenchMachine bench = {.machine = (*machine)->machine()};
  RegisterLocalBenches(bench);
  RegisterRingBenches(bench);
  RegisterNcclBenches(bench);
  return RunBenches() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
