#ifndef TUTTI_BENCH_GPU_GPU_CHECK_H_
#define TUTTI_BENCH_GPU_GPU_CHECK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "bench/gpu/gpu_machine.h"
#include "gtest/gtest.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Sets the function that gives each check its machine. A program calls it
// before testing::InitGoogleTest().
void SetMachines(std::function<std::shared_ptr<GpuMachine>()> machines);

// Number of GPUs of the machines.
int NumGpus();

// Name of a check in Google Test, which takes letters, digits and _.
std::string CheckName(absl::string_view text);

// Runs a case of a check, whose name a failure has. Returns whether the check
// has no failure.
bool Passes(const std::string& name, absl::FunctionRef<void()> run);

// Check on a machine. It leaves nothing on the GPUs.
class GpuCheck : public ::testing::Test {
 protected:
  GpuCheck();

  GpuMachine& machine() { return *machine_; }
  GpuRuntime& runtime() { return machine_->runtime; }
  const CheckScale& scale() const { return machine_->scale; }

  // Reason for which a check that needs NCCL is left out, or empty.
  std::string WhyNoNccl() const;

 private:
  const std::shared_ptr<GpuMachine> machine_;
};

// Registers the check that a GPU which fails is noticed. It comes last, because
// the GPU can do nothing more for this process. Called after
// testing::InitGoogleTest().
void RegisterFaultCheck();

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GPU_CHECK_H_
