#include "bench/gpu/gpu_check.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"

namespace tutti {
namespace {

std::function<std::shared_ptr<GpuMachine>()>& Machines() {
  static std::function<std::shared_ptr<GpuMachine>()> machines;
  return machines;
}

}  // namespace

void SetMachines(std::function<std::shared_ptr<GpuMachine>()> machines) {
  Machines() = std::move(machines);
}

int NumGpus() { return Machines()()->num_gpus(); }

std::string CheckName(absl::string_view text) {
  std::string name(text);
  for (char& letter : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(letter))) letter = '_';
  }
  return name;
}

bool Passes(const std::string& name, absl::FunctionRef<void()> run) {
  SCOPED_TRACE(name);
  try {
    run();
  } catch (const absl::BadStatusOrAccess& error) {
    ADD_FAILURE() << error.status();
  }
  return !::testing::Test::HasFailure();
}

GpuCheck::GpuCheck() : machine_(Machines()()) {}

std::string GpuCheck::WhyNoNccl() const {
  if (!machine_->nccl.ok()) {
    return std::string(machine_->nccl.status().message());
  }
  return scale().is_watched ? "a tool watches the kernels" : "";
}

}  // namespace tutti
