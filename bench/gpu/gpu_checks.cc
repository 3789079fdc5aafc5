// Checks Tutti on the GPUs of this machine: docs/gpu.md.
//
// usage: gpu_checks [--short] [GOOGLE TEST'S FLAGS]
//
// --short is for tools that watch kernels: small buffers, no NCCL, and nothing
// that spoils a GPU. Exit status: 0 if all passed, 1 if something failed, 2 for
// bad usage, 3 if there is no GPU.

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "bench/gpu/cuda_machine.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_machine.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

// Work that the sanitizers do in some minutes.
constexpr CheckScale kShort = {.large_elements = 10'007,
                               .churn_bytes = int64_t{1} << 16,
                               .rounds = 20,
                               .is_watched = true};

int Main(int argc, char** argv) {
  char** const last =
      std::remove(argv + 1, argv + argc, std::string("--short"));
  const bool is_short = last != argv + argc;
  argc = static_cast<int>(last - argv);
  const auto machine = CudaMachine::Create(is_short ? kShort : CheckScale());
  if (!machine.ok()) return ExitStatusWithout("gpu_checks", machine.status());
  for (const std::string& line : (*machine)->Description()) {
    std::cout << line << std::endl;
  }
  SetMachines([&] {
    return std::shared_ptr<GpuMachine>(std::shared_ptr<void>(),
                                       &(*machine)->machine());
  });
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) {
    std::cerr << "gpu_checks: unknown argument " << argv[1] << '\n';
    return kBadUsage;
  }
  if (!is_short) RegisterFaultCheck();
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
