#include "tests/mpi_task.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/time/time.h"
#include "framework/await.h"
#include "framework/default_environment.h"
#include "framework/status_callback.h"
#include "remote/mpi/mpi_runtime.h"
#include "remote/mpi/mpi_transport.h"

namespace tutti {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

// Of this process; there is one MPI.
MpiRuntime* mpi = nullptr;

absl::Time Deadline() { return MpiTestEnvironment().clock->Now() + kLimit; }

}  // namespace

int RunTestsUnderMpi(int* argc, char** argv) {
  testing::InitGoogleTest(argc, argv);
  MpiRuntime runtime({.environment = MpiTestEnvironment()});
  const absl::Status status = runtime.Start();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 2;
  }
  mpi = &runtime;
  const int result = RUN_ALL_TESTS();
  mpi = nullptr;
  runtime.Shutdown();
  return result;
}

const Environment& MpiTestEnvironment() {
  static const DefaultEnvironment threads(/*num_workers=*/2);
  static const Environment environment = threads.get();
  return environment;
}

absl::StatusOr<std::unique_ptr<ClusterRuntime>> JoinedMpiTask(
    ClusterRuntime::Options options) {
  const auto cluster = ClusterOf(*mpi);
  if (!cluster.ok()) return cluster.status();
  options.cluster = *cluster;
  options.environment = MpiTestEnvironment();
  options.make_transport = [cluster = *cluster](uint64_t incarnation) {
    return CreateMpiTransport({.runtime = mpi,
                               .cluster = cluster,
                               .incarnation = incarnation,
                               .environment = MpiTestEnvironment()});
  };
  auto runtime = ClusterRuntime::Create(std::move(options));
  if (!runtime.ok()) return runtime;
  const absl::Status joined = Await([&](StatusCallback done) {
    (*runtime)->Join(Deadline(), /*progress=*/nullptr, std::move(done));
  });
  if (!joined.ok()) return joined;
  return runtime;
}

absl::Status LeaveMpiTask(std::unique_ptr<ClusterRuntime> runtime) {
  return Await([&](StatusCallback done) {
    runtime->Leave(Deadline(), std::move(done));
  });
}

}  // namespace tutti
