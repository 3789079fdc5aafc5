// Tests of MPI's runtime in a process of a job, in step with the others. Modes:
//
//   own        the runtime brings MPI up
//   multiple   the program has, for calls from several threads
//   funneled   the program has, for calls from one thread
//   apart      as "multiple"; the processes differ in an option that they must
//              have in common
//
// MPI comes up once in a process; each mode is therefore a separate job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_host_memory.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/transport.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"

namespace {

// Copies of MPI_COMM_WORLD in this process; for one thread at a time.
std::set<MPI_Comm> copies;

}  // namespace

int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* made) {
  const int code = PMPI_Comm_dup(communicator, made);
  copies.insert(*made);
  return code;
}

int MPI_Comm_free(MPI_Comm* communicator) {
  copies.erase(*communicator);
  return PMPI_Comm_free(communicator);
}

namespace tutti {
namespace {

using testing::HasSubstr;

std::string mode;

bool IsUp() {
  int is_up = 0, is_over = 0;
  MPI_Initialized(&is_up);
  MPI_Finalized(&is_over);
  return is_up != 0 && is_over == 0;
}

bool says_it_is_cuda_aware = false;

}  // namespace
}  // namespace tutti

extern "C" int MPIX_Query_cuda_support() {
  EXPECT_TRUE(tutti::IsUp());
  return tutti::says_it_is_cuda_aware ? 1 : 0;
}

namespace tutti {
namespace {

auto IsNotInitialized() {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  HasSubstr("MPI has not been initialized"));
}

void ExpectNotInitialized(const MpiRuntime& runtime) {
  const auto is_error = IsNotInitialized();
  EXPECT_THAT(runtime.size(), is_error);
  EXPECT_THAT(runtime.rank(), is_error);
  EXPECT_THAT(runtime.local_rank(), is_error);
  EXPECT_THAT(runtime.local_size(), is_error);
  EXPECT_THAT(runtime.local_processors(), is_error);
  EXPECT_THAT(runtime.hosts(), is_error);
  EXPECT_THAT(runtime.Describe(), is_error);
  EXPECT_FALSE(runtime.is_cuda_aware());
}

// Checks that posted work runs, and that the runtime knows its place.
void ExpectWorks(MpiRuntime& runtime) {
  BlockingCounter has_run(1);
  runtime.engine().Post([&] { has_run.DecrementCount(); });
  has_run.Wait();
  EXPECT_GE(*runtime.rank(), 0);
  EXPECT_LT(*runtime.rank(), *runtime.size());
  EXPECT_GE(*runtime.local_processors(), 1);
  EXPECT_EQ(runtime.hosts()->size(), *runtime.size());
  EXPECT_THAT(*runtime.Describe(), HasSubstr("MPI_THREAD_"));
}

// Checks for rings: a host program may call MPI at the same time.
void ExpectRingsOnlyInOurMpi(MpiRuntime& runtime) {
  BlockingCounter has_run(1);
  bool has_ring = false;
  runtime.engine().Post([&] {
    has_ring = runtime.engine().ring() != nullptr;
    has_run.DecrementCount();
  });
  has_run.Wait();
  EXPECT_EQ(has_ring, mode == "own");
}

void ExpectIsCudaAware(const MpiRuntime& runtime, bool is_cuda_aware) {
  EXPECT_EQ(runtime.is_cuda_aware(), is_cuda_aware);
  EXPECT_THAT(*runtime.Describe(),
              HasSubstr(is_cuda_aware ? ", CUDA-aware" : ", not CUDA-aware"));
}

TEST(MpiRuntimeTest, EndsWhatItHasBegunAndNothingElse) {
  if (mode == "apart") return;
  const DefaultEnvironment environment(1);
  const auto here = std::this_thread::get_id();
  bool has_begun = false;
  says_it_is_cuda_aware = true;
  auto runtime = std::make_unique<MpiRuntime>(
      MpiRuntime::Options{.environment = environment.get(), .on_thread = [&] {
                            has_begun = true;
                            EXPECT_NE(std::this_thread::get_id(), here);
                            EXPECT_EQ(IsUp(), mode != "own");
                          }});
  ExpectNotInitialized(*runtime);
  EXPECT_FALSE(has_begun);
  const absl::Status started = runtime->Start();
  if (mode == "funneled") {
    EXPECT_THAT(started, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("MPI_THREAD_FUNNELED")));
    ExpectNotInitialized(*runtime);
    EXPECT_TRUE(IsUp());
    return;
  }
  ASSERT_THAT(started, IsOk());
  EXPECT_TRUE(has_begun);
  ExpectWorks(*runtime);
  ExpectRingsOnlyInOurMpi(*runtime);
  ExpectIsCudaAware(*runtime, true);
  auto late = CreateMpiTransport({.runtime = runtime.get(),
                                  .cluster = *ClusterOf(*runtime),
                                  .incarnation = 1,
                                  .environment = environment.get()});
  ASSERT_THAT(late, IsOk());
  runtime->Shutdown();
  ExpectNotInitialized(*runtime);
  EXPECT_THAT((*late)->Start(nullptr, nullptr), IsNotInitialized());
  late->reset();
  const auto mailbox = runtime->engine().mailbox();
  runtime = nullptr;
  bool has_run = false;
  mailbox->Post([&] { has_run = true; });
  EXPECT_TRUE(has_run);
  EXPECT_EQ(IsUp(), mode == "multiple");

  MpiRuntime another(
      {.environment = environment.get(), .is_cuda_aware = false});
  if (mode == "own") {
    EXPECT_THAT(another.Start(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("cannot be started again")));
  } else {
    ASSERT_THAT(another.Start(), IsOk());
    ExpectWorks(another);
    ExpectIsCudaAware(another, false);
  }
}

// Even ranks share memory, the others do not.
TEST(MpiRuntimeTest, AllAreToldWhoDiffersAndMayStartAnotherOne) {
  if (mode != "apart") return;
  const DefaultEnvironment environment(1);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) {
    const bool is_even = rank % 2 == 0;
    MpiRuntime runtime(
        {.environment = environment.get(), .shares_memory = is_even});
    EXPECT_THAT(runtime.Start(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat(
                             "shares_memory of rank ", is_even ? 1 : 0, " is ",
                             is_even ? 0 : 1, ", that of this one, rank ", rank,
                             ", ", is_even ? 1 : 0))));
    ExpectNotInitialized(runtime);
  }
  EXPECT_TRUE(copies.empty());
  MpiRuntime another({.environment = environment.get()});
  ASSERT_THAT(another.Start(), IsOk());
  ExpectWorks(another);
}

// --- Idleness ----------------------------------------------------------------

// Clock that advances by a microsecond at each look.
class LookedAtClock final : public Clock {
 public:
  absl::Time Now() override {
    return absl::UnixEpoch() + absl::Microseconds(++num_looks_);
  }

  AlarmId CallAt(absl::Time /*when*/, Work /*alarm*/) override { return 0; }
  bool Cancel(AlarmId /*id*/) override { return true; }

 private:
  std::atomic<int64_t> num_looks_ = 0;
};

// Poller without work, for MPI's thread. Can ring when that thread is about to
// sleep for the first time.
class IdlePoller final : public MpiPoller {
 public:
  static constexpr int kMostPolls = 100'000;
  static constexpr int kPollsBeforeSleep = 2;

  // Stores the number of polls until the thread is about to sleep for the
  // second time, or kMostPolls.
  void Count(int* num_polls, BlockingCounter* counted,
             MpiMailbox* rung = nullptr) {
    rung_ = rung;
    num_polls_ = num_polls;
    counted_ = counted;
    *num_polls = 0;
    num_last_ = 0;
  }

  State Poll(bool is_last) override {
    if (counted_ == nullptr) return State::kIdle;
    ++*num_polls_;
    if (is_last) ++num_last_;
    if (num_last_ == kPollsBeforeSleep && rung_ != nullptr) {
      std::exchange(rung_, nullptr)->Ring();
    }
    if (num_last_ == 2 * kPollsBeforeSleep || *num_polls_ == kMostPolls) {
      std::exchange(counted_, nullptr)->DecrementCount();
    }
    return State::kIdle;
  }

 private:
  MpiMailbox* rung_ = nullptr;
  int num_last_ = 0;
  int* num_polls_ = nullptr;
  BlockingCounter* counted_ = nullptr;
};

TEST(MpiRuntimeTest, AThreadWithNothingToDoSleepsAfterTheSpinLimit) {
  if (mode != "multiple") return;
  LookedAtClock clock;
  const DefaultEnvironment environment(1);
  MpiRuntime runtime(
      {.environment = {.clock = &clock, .random = environment.get().random},
       .spin_limit = absl::Microseconds(50)});
  ASSERT_THAT(runtime.Start(), IsOk());
  const auto poller = std::make_shared<IdlePoller>();
  runtime.engine().Post([&] { runtime.engine().Add(poller); });
  for (int event = 0; event < 3; ++event) {
    BlockingCounter counted(1);
    int num_polls = 0;
    runtime.engine().Post([&] { poller->Count(&num_polls, &counted); });
    counted.Wait();
    // Polls: after the event; one a microsecond; before the sleep; once awake;
    // before the sleep.
    EXPECT_EQ(num_polls, 1 + 50 + 2 + 1 + 2);
  }
  // MPI may need some looks to find the message behind a ring.
  BlockingCounter counted(1);
  int num_polls = 0;
  runtime.engine().Post([&] {
    poller->Count(&num_polls, &counted, runtime.engine().mailbox().get());
  });
  counted.Wait();
  EXPECT_EQ(num_polls, 1 + 50 + 2 + 50 + 2);
}

// --- Objects left to MPI ----------------------------------------------------

// Poller that reports its destruction to mpirun.
class LastingPoller final : public MpiPoller {
 public:
  ~LastingPoller() override {
    std::fputs("a poller was destroyed that MPI may still use\n", stderr);
    std::_Exit(3);
  }
  State Poll(bool /*is_last*/) override { return State::kIdle; }
};

// Process exit: the libraries that such an object uses, such as a GPU runtime,
// may be gone by then.
TEST(MpiRuntimeTest, WhatIsLeftToTheMpiOfAHostProgramIsNeverDestroyed) {
  if (mode != "multiple") return;
  const DefaultEnvironment environment(1);
  MpiRuntime runtime({.environment = environment.get()});
  ASSERT_THAT(runtime.Start(), IsOk());
  runtime.engine().Post(
      [&] { runtime.engine().Add(std::make_shared<LastingPoller>()); });
}

// --- Late and lost ranks ----------------------------------------------------

// Rank 1 is called lost, and comes when the others have gone.
TEST(MpiRuntimeTest, DoesNotWaitLongForTheLostInTheMpiOfAHostProgram) {
  if (mode != "multiple") return;
  const DefaultEnvironment environment(1);
  MpiRuntime runtime(
      {.environment = environment.get(), .lost_limit = absl::Milliseconds(20)});
  ASSERT_THAT(runtime.Start(), IsOk());
  if (*runtime.size() == 1) return;
  const bool is_late = *runtime.rank() == 1;
  if (!is_late) {
    runtime.engine().CallLost(1, absl::UnavailableError("silent"));
    runtime.Shutdown();
    ExpectNotInitialized(runtime);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(IsUp());
}

// Poller that keeps a tensor for rank 0. Its first poll after IsHeldBy() shows
// that the runtime has printed its message.
class HeldPoller final : public MpiPoller {
 public:
  explicit HeldPoller(BlockingCounter* said) : said_(said) {}
  State Poll(bool /*is_last*/) override {
    if (num_requested_ > 0 && said_ != nullptr) {
      std::exchange(said_, nullptr)->DecrementCount();
    }
    return State::kWaiting;
  }
  bool IsHeldBy(int rank) const override {
    ++num_requested_;
    return rank == 0;
  }

 private:
  BlockingCounter* said_;
  mutable int num_requested_ = 0;
};

TEST(MpiRuntimeTest, NamesTheLostThatKeepTensorsInTheMpiOfAHostProgram) {
  if (mode != "multiple") return;
  const DefaultEnvironment environment(1);
  MpiRuntime runtime(
      {.environment = environment.get(), .lost_limit = absl::ZeroDuration()});
  ASSERT_THAT(runtime.Start(), IsOk());
  BlockingCounter said(1);
  runtime.engine().Post(
      [&] { runtime.engine().Add(std::make_shared<HeldPoller>(&said)); });
  testing::internal::CaptureStderr();
  runtime.engine().CallLost(0, absl::UnavailableError("silent"));
  runtime.engine().CallLost(1, absl::UnavailableError("dead"));
  said.Wait();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            absl::StrCat("tutti: MPI: rank ", *runtime.rank(),
                         " has waited 0 for tensors of collectives that have "
                         "failed, which MPI keeps until those go on that are "
                         "lost: rank 0 (silent); it waits on\n"));
  runtime.engine().CallFound(0);
  runtime.engine().CallFound(1);
}

// Rank 1 is late. It first checks for a while that no other rank has shut down:
// each sends a message when it has.
TEST(MpiRuntimeTest, WaitsForWhoIsLateWhereNobodyIsCalledLost) {
  if (mode != "multiple") return;
  constexpr int kNumLooks = 10'000;
  constexpr int kTag = 1;
  const DefaultEnvironment environment(1);
  MpiRuntime runtime(
      {.environment = environment.get(), .lost_limit = absl::ZeroDuration()});
  ASSERT_THAT(runtime.Start(), IsOk());
  const int size = *runtime.size();
  if (size == 1) return;
  if (*runtime.rank() != 1) {
    runtime.Shutdown();
    MPI_Send(nullptr, 0, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
    return;
  }
  for (int look = 0; look < kNumLooks; ++look) {
    int has_come = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &has_come,
               MPI_STATUS_IGNORE);
    ASSERT_EQ(has_come, 0) << "after " << look << " looks";
  }
  runtime.Shutdown();
  for (int other = 1; other < size; ++other) {
    MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  }
}

// --- Memory that the processes share ----------------------------------------

constexpr size_t kBytesOfEach = 64;

class MpiHostMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (mode != "multiple") GTEST_SKIP();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  std::byte& OfRank(int rank) { return memory_.bytes()[kBytesOfEach * rank]; }

  int rank_ = 0;
  int size_ = 0;
  MpiHostMemory memory_;
};

TEST_F(MpiHostMemoryTest, AllSeeWhatEachWrites) {
  ASSERT_THAT(memory_.Share(MPI_COMM_WORLD, kBytesOfEach * size_), IsOk());
  ASSERT_NE(memory_.bytes(), nullptr);
  EXPECT_EQ(OfRank(rank_), std::byte{0});
  OfRank(rank_) = static_cast<std::byte>(rank_ + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int rank = 0; rank < size_; ++rank) {
    EXPECT_EQ(OfRank(rank), static_cast<std::byte>(rank + 1));
  }
}

// Rank 1 wants more than there is.
TEST_F(MpiHostMemoryTest, IfOneCannotHaveItNobodyHas) {
  if (size_ == 1) return;
  const size_t num_bytes = rank_ == 1 ? 2 * kBytesOfEach : kBytesOfEach;
  ASSERT_THAT(memory_.Share(MPI_COMM_WORLD, num_bytes), IsOk());
  EXPECT_EQ(memory_.bytes(), nullptr);
}

TEST_F(MpiHostMemoryTest, IfItCannotBeMadeNobodyHasIt) {
  const size_t num_bytes = rank_ == 0 ? SIZE_MAX : kBytesOfEach;
  ASSERT_THAT(memory_.Share(MPI_COMM_WORLD, num_bytes), IsOk());
  EXPECT_EQ(memory_.bytes(), nullptr);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  tutti::mode = argv[1];
  int level = 0;
  if (tutti::mode != "own") {
    MPI_Init_thread(
        nullptr, nullptr,
        tutti::mode == "funneled" ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE,
        &level);
  }
  const int result = RUN_ALL_TESTS();
  if (tutti::IsUp()) MPI_Finalize();
  return result;
}
