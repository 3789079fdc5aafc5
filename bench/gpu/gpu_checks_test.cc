// All checks on doubles of GPUs and of NCCL: a new machine for each. They leave
// nothing behind. planted_faults_test.py gives the machine less, or a fault.
//
// usage: gpu_checks_test [--gpus=N] [--unlinked] [--nccl=blocking|none]
//          [--fault=NAME] [GOOGLE TEST'S FLAGS]

#include <functional>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/gpu/fake_machine.h"
#include "bench/gpu/gpu_check.h"
#include "gtest/gtest.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

// Makes machines, and looks after each check at the machine that it had.
class FakeMachines : public ::testing::EmptyTestEventListener {
 public:
  explicit FakeMachines(FakeMachine::Options options)
      : options_(std::move(options)) {}

  std::shared_ptr<GpuMachine> Make() {
    current_ = std::make_shared<FakeMachine>(options_);
    return {current_, &current_->machine};
  }

  // Gives each check its own order of streams, whatever else runs.
  void OnTestStart(const ::testing::TestInfo& info) override {
    options_.seed = std::hash<std::string>()(
        absl::StrCat(info.test_suite_name(), info.name()));
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const auto machine = std::move(current_);
    if (info.result()->Skipped()) return;
    if (info.result()->Failed() ||
        std::string(info.test_suite_name()) == "FaultCheck") {
      return;  // Something may be left.
    }
    EXPECT_EQ(absl::StrJoin(machine->Complaints(), "\n"), "");
  }

 private:
  FakeMachine::Options options_;
  std::shared_ptr<FakeMachine> current_;
};

int Main(int argc, char** argv) {
  FakeMachine::Options options;
  std::string nccl;
  bool is_unlinked = false;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_option("--gpus", options.num_gpus);
  app.add_flag("--unlinked", is_unlinked);
  app.add_option("--nccl", nccl);
  app.add_option("--fault", options.fault);
  CLI11_PARSE(app, argc, argv);
  if (is_unlinked) options.link = PeerLink::kNone;
  if (nccl == "none") options.nccl = absl::UnavailableError("no libnccl.so.2");
  if (nccl == "blocking") options.why_nccl_blocks = "it is old";
  auto* const machines = new FakeMachines(options);  // Google Test owns it.
  SetMachines([machines] { return machines->Make(); });
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::UnitTest::GetInstance()->listeners().Append(machines);
  RegisterFaultCheck();
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
