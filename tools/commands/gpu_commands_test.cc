// `tutti run`, `perf` and `tune` on the GPUs of a fake runtime.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "nlohmann/json.hpp"
#include "tests/cluster/grpc_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exits_with_testing.h"
#include "tools/cluster/party.h"
#include "tools/cluster/party_devices.h"
#include "tools/commands/collective_commands.h"
#include "tools/files/npy.h"
#include "tools/files/npy_header.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/selection.h"

namespace tutti {
namespace gpu_commands_test {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class GpuCommandsTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(runtime_->Mistakes(), IsEmpty()); }

  DeviceMaker Maker() {
    return *GpuRanks(runtime_, environment_.get(), /*nccl=*/nullptr);
  }
  PartyFactory MakeParty() {
    return LocalParty(environment_.get(), /*rules=*/nullptr, Maker());
  }

  PerfOptions Perf() const {
    PerfOptions options;
    options.collective.collective = "all_reduce";
    options.devices = 3;
    options.choice.device_type = "GPU";
    options.sweep.max_bytes = "4096";
    options.sweep.factor = 32;
    options.iterations = 2;
    options.check = true;
    options.json = true;
    return options;
  }
  absl::Status Measure(const PerfOptions& options) {
    return MeasureCollective(options, environment_.get(), /*num_workers=*/2,
                             MakeParty(), {out_, err_});
  }

  const DefaultEnvironment environment_{2};
  const std::shared_ptr<FakeGpuRuntime> runtime_ =
      std::make_shared<FakeGpuRuntime>(FakeGpuRuntime::Options{
          .num_gpus = 2, .environment = environment_.get()});
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(GpuCommandsTest, RanksTakeTheGpusInTurn) {
  const DeviceMaker make = Maker();
  for (const auto& [first_rank, gpus] :
       {std::pair{0, std::vector{0, 1, 0, 1, 0}},
        std::pair{5, std::vector{1, 0, 1, 0, 1}}}) {
    const auto devices = make({.first_rank = first_rank, .num_devices = 5});
    ASSERT_THAT(devices, IsOk());
    std::vector<int> found;
    std::set<std::string> names;
    for (const auto& device : *devices) {
      found.push_back(static_cast<CudaDevice&>(*device).gpu());
      names.insert(device->full_name());
    }
    EXPECT_EQ(found, gpus);
    EXPECT_EQ(names.size(), 5);
  }
}

TEST_F(GpuCommandsTest, ThereIsNoMakerWithoutAGpu) {
  const auto none = std::make_shared<FakeGpuRuntime>(FakeGpuRuntime::Options{
      .num_gpus = 0, .environment = environment_.get()});
  EXPECT_THAT(GpuRanks(none, environment_.get(), nullptr).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no GPU")));
}

TEST_F(GpuCommandsTest, RunWritesTheSumOfAllFiles) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "gpu_run";
  std::filesystem::create_directories(folder);
  RunOptions options;
  options.collective.collective = "all_reduce";
  options.choice.device_type = "GPU";
  options.output = (folder / "out").string();
  for (int rank = 0; rank < 3; ++rank) {
    const std::string path = (folder / absl::StrCat(rank, ".npy")).string();
    const std::vector<float> values(5, static_cast<float>(1 << rank));
    std::ofstream file(path, std::ios::binary);
    file << NpyPreamble({DType::kFloat32, TensorShape::Vector(5)});
    file.write(reinterpret_cast<const char*>(values.data()), 5 * sizeof(float));
    options.inputs.push_back({path});
  }
  for (const int tasks : {1, 3}) {
    options.tasks = tasks;
    ASSERT_THAT(
        RunOnFiles(options, environment_.get(), MakeParty(), {out_, err_}),
        IsOk());
    for (int rank = 0; rank < 3; ++rank) {
      const auto sum =
          ReadNpy((folder / "out" / absl::StrCat("rank", rank, ".npy")));
      ASSERT_THAT(sum, IsOk());
      const auto* values = reinterpret_cast<const float*>(sum->data());
      EXPECT_THAT(std::vector<float>(values, values + 5), Each(7));
    }
    std::filesystem::remove_all(options.output);
  }
  options.watch = true;
  EXPECT_THAT(
      RunOnFiles(options, environment_.get(), MakeParty(), {out_, err_}),
      IsOk());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(out_.str(), HasSubstr(absl::StrCat("rank ", rank, ": ")));
  }
}

TEST_F(GpuCommandsTest, PerfFindsNoWrongElement) {
  for (const char* collective :
       {"all_reduce", "all_gather", "reduce_scatter"}) {
    for (const bool in_place : {false, true}) {
      PerfOptions options = Perf();
      options.collective.collective = collective;
      options.in_place = in_place;
      options.algorithms = {"all"};
      out_.str("");
      ASSERT_THAT(Measure(options), IsOk()) << collective;
      std::vector<std::string> names;
      for (const auto& row : nlohmann::json::parse(out_.str())) {
        EXPECT_EQ(row["wrong"], 0) << row.dump();
        names.push_back(row["algorithm"]);
      }
      EXPECT_THAT(names, Contains(HasSubstr("Ring")));
      // No pass over the memory of all GPUs scatters.
      if (collective == std::string("reduce_scatter")) continue;
      EXPECT_THAT(names, Contains(HasSubstr("GpuLocal")));
    }
  }
}

TEST_F(GpuCommandsTest, PerfNamesTheDevicesOfWhatCannotRun) {
  PerfOptions options = Perf();
  options.algorithms = {"LocalReduce"};
  EXPECT_THAT(
      Measure(options),
      ExitsWith(
          2, HasSubstr("LocalReduce does not do all_reduce on GPU devices")));
}

TEST_F(GpuCommandsTest, TuneWritesRulesThatNameAlgorithmsOfGpus) {
  TuneOptions options;
  options.collectives = {"all_reduce"};
  options.layouts = {"1x3"};
  options.device_type = "GPU";
  options.sweep.max_bytes = "32";
  options.rounds = 1;
  options.iterations = 1;
  options.output = testing::TempDir() + "/gpu_rules.json";
  ASSERT_THAT(TuneRules(options, environment_.get(), MakeParty(), {out_, err_}),
              IsOk());
  const auto rules =
      ReadRulesFile(options.output, CollectiveRegistry::Global());
  ASSERT_THAT(rules, IsOk());
  EXPECT_FALSE((*rules)->past_caches_from_bytes.has_value());
  ASSERT_THAT((*rules)->rules, Not(IsEmpty()));
  const auto factory =
      CollectiveRegistry::Global().Find((*rules)->rules.front().implementation);
  ASSERT_THAT(factory, IsOk());
  EXPECT_THAT((*factory)->traits().device_types, Not(Contains("CPU")));
}

// The processes are objects in this one.
TEST_F(GpuCommandsTest, TasksOfAClusterMeasureTogether) {
  const DeviceMaker make = Maker();
  auto runtimes = JoinedGrpcTasks(
      2, environment_.get(), [&](int task, uint64_t incarnation) {
        return WithMessenger(make, {.job = "worker",
                                    .task = task,
                                    .first_rank = 2 * task,
                                    .num_devices = 2,
                                    .incarnation = incarnation});
      });
  ASSERT_THAT(runtimes, IsOk());
  std::vector<absl::Status> statuses(2);
  std::vector<std::ostringstream> outs(2);
  std::vector<std::thread> threads;
  for (int task = 0; task < 2; ++task) {
    threads.emplace_back([&, task] {
      PerfOptions options = Perf();
      options.devices = 4;
      options.tasks = 2;
      std::ostringstream err;
      statuses[task] = MeasureCollective(
          options, environment_.get(), /*num_workers=*/2,
          [&](int /*num_ranks*/, int /*num_tasks*/) {
            return MakeClusterParty(environment_.get(),
                                    std::move((*runtimes)[task]), "perf");
          },
          {outs[task], err});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(statuses, ElementsAre(IsOk(), IsOk()));
  for (const auto& row : nlohmann::json::parse(outs[0].str())) {
    EXPECT_EQ(row["wrong"], 0) << row.dump();
  }
}

}  // namespace gpu_commands_test
}  // namespace tutti
