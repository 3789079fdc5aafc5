#include "tests/processes/mpi_task.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "resolvers/membership/task_health.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"

namespace tutti {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

// Up to eight processes share a busy processor: a slow process must not count
// as lost.
constexpr HealthProfile kPatience = {.silence_limit = kLimit,
                                     .hold = absl::Seconds(1)};

// MPI of this process; only one exists.
MpiRuntime* mpi = nullptr;

absl::Time Deadline() { return MpiTestEnvironment().clock->Now() + kLimit; }

// A program that has initialised MPI itself and uses Tutti as a guest. While a
// test runs, it receives any message on MPI_COMM_WORLD; it also sends there. It
// calls MPI by the PMPI names, since the checks of mpi_thread.h take calls by
// MPI's names for calls of Tutti.
class HostProgram : public testing::EmptyTestEventListener {
 public:
  // Requests MPI_THREAD_MULTIPLE. Ends the job if MPI does not support it.
  HostProgram() {
    int level = 0;
    PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE) End("has no MPI_THREAD_MULTIPLE");
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    PMPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~HostProgram() override {
    int is_over = 0;
    PMPI_Finalized(&is_over);
    if (is_over != 0) End("was not to end MPI");
    PMPI_Finalize();
  }

  void OnTestStart(const testing::TestInfo& /*test*/) override {
    PMPI_Irecv(&received_, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
               MPI_COMM_WORLD, &receive_);
  }

  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    const int before = (rank_ + size_ - 1) % size_;
    MPI_Request send;
    PMPI_Isend(&rank_, 1, MPI_INT, (rank_ + 1) % size_, num_sent_++,
               MPI_COMM_WORLD, &send);
    MPI_Status status;
    PMPI_Wait(&receive_, &status);
    PMPI_Wait(&send, MPI_STATUS_IGNORE);
    if (received_ != before || status.MPI_SOURCE != before ||
        status.MPI_TAG != num_sent_ - 1) {
      End("got another's message");
    }
  }

 private:
  void End(const char* what) const {
    std::fprintf(stderr, "rank %d with an MPI of its own %s\n", rank_, what);
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }

  int rank_ = 0;
  int size_ = 1;
  int received_ = 0;
  int num_sent_ = 0;  // Tag of the next message.
  MPI_Request receive_ = MPI_REQUEST_NULL;
};

int RunTests() {
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

}  // namespace

int RunTestsUnderMpi(int* argc, char** argv) {
  testing::InitGoogleTest(argc, argv);
  if (*argc != 2 || argv[1] != std::string("adopted")) return RunTests();
  HostProgram host;
  testing::TestEventListeners& listeners =
      testing::UnitTest::GetInstance()->listeners();
  listeners.Append(&host);
  const int result = RunTests();
  listeners.Release(&host);
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
  options.health = kPatience;
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
