// Tests of a transport over MPI. Each process of a job runs them, in step with
// the others; mpirun_test.py starts them. Arguments choose a mode:
//
//  - far: each process acts as if on a separate host;
//  - funneled: MPI takes calls from one thread only;
//  - aware: MPI is taken for CUDA-aware;
//  - closed: every second process neither reads others' memory nor lets others
//    read its own, and the system soon forbids all reads;
//  - mute: processes of a host cannot ring each other's doorbells.
//
// This file tests the runtime's information and calls. Other sources of this
// program test transfers and the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_thread.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/mpi_transport.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

using testing::HasSubstr;

TEST_F(MpiTransportTest, TheRuntimeKnowsThePlaces) {
  EXPECT_EQ(*Mpi().size(), size());
  const auto hosts = *Mpi().hosts();
  const auto own = hosts.begin() + rank();
  const auto num_before = std::count(hosts.begin(), own, *own);
  const auto num_here = std::count(hosts.begin(), hosts.end(), *own);
  EXPECT_EQ(*Mpi().local_rank(), Mode().shares_memory ? num_before : 0);
  EXPECT_EQ(*Mpi().local_size(), Mode().shares_memory ? num_here : 1);
  EXPECT_THAT(Mpi().Start(),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
}

TEST_F(MpiTransportTest, ThoseOfOneHostShareMemoryWhereTheyCan) {
  BlockingCounter is_known(1);
  bool shares_memory = false;
  Mpi().engine().Post([&] {
    shares_memory = Mpi().engine().shares_memory_with(next());
    is_known.DecrementCount();
  });
  is_known.Wait();
  const auto hosts = *Mpi().hosts();
  const bool can = Mode().shares_memory && !Mode().is_mute;
  EXPECT_EQ(shares_memory,
            next() == rank() || (can && hosts[next()] == hosts[rank()]));
}

TEST_F(MpiTransportTest, MessagesCostLessOnOneHost) {
  const bool is_one_host = *Mpi().local_size() == size();
  EXPECT_EQ(transport_->cost_model().between.latency_seconds,
            (is_one_host ? MpiCostOnOneHost(size(), *Mpi().local_processors())
                         : CostModel())
                .between.latency_seconds);
}

TEST_F(MpiTransportTest, TheRuntimeSaysWhichLevelOfThreadSupportIsGranted) {
  EXPECT_THAT(*Mpi().Describe(),
              HasSubstr(Mode().is_funneled ? "MPI_THREAD_FUNNELED"
                                           : "MPI_THREAD_MULTIPLE"));
}

TEST_F(MpiTransportTest, CallsAreAnsweredByWhoeverIsCalled) {
  for (int task = 0; task < size(); ++task) {
    const ControlAnswer answer =
        CallAndWait(transport_->control(), task, StepRequest(7));
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->step_sequence().step_id(), 700 + rank());
  }
}

TEST_F(MpiTransportTest, StatusesSurviveTheWire) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_THAT(
        CallAndWait(transport_->control(), next(), StepRequest(-code)),
        StatusIs(static_cast<absl::StatusCode>(code), "went wrong \n%"));
  }
}

TEST_F(MpiTransportTest, ThereIsNoCallToATaskThatIsNot) {
  for (int task : {-1, size()}) {
    EXPECT_THAT(
        CallAndWait(transport_->control(), task, StepRequest(1)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no task")));
    WaitingReceiver receiver(4);
    Request(task, 1, receiver, 4);
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("no task")));
  }
}

TEST_F(MpiTransportTest, CallsEndAtTheirDeadlineAndWhenCancelled) {
  const int64_t never = -1'000'000;
  EXPECT_THAT(
      CallAndWait(transport_->control(), next(), StepRequest(never),
                  {.deadline = Machine().clock->Now()}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no answer")));
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel(absl::AbortedError("enough"));
  EXPECT_THAT(CallAndWait(transport_->control(), next(), StepRequest(never),
                          {.cancellation = cancellation}),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST_F(MpiTransportTest, OptionsThatMakeNoSenseAreRefused) {
  const MpiTransportOptions good = {.runtime = &Mpi(),
                                    .cluster = *ClusterOf(Mpi()),
                                    .incarnation = 1,
                                    .environment = Machine()};
  const auto refused = [](const MpiTransportOptions& options,
                          absl::string_view why) {
    EXPECT_THAT(CreateMpiTransport(options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  MpiTransportOptions bad = good;
  bad.runtime = nullptr;
  refused(bad, "nothing is given that runs MPI");
  bad = good;
  bad.environment.random = nullptr;
  refused(bad, "the environment lacks");
  EXPECT_THAT(
      MpiRuntime({}).Start(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a clock")));
  bad = good;
  bad.incarnation = 0;
  refused(bad, "0 is no incarnation");
  bad = good;
  ++bad.cluster.this_task;
  refused(bad, "");
}

// Simulates a thread that stood still as MPI ended. Nothing may touch the
// former runtime.
class WhoCallsWhenMpiIsOver : public testing::Environment {
 public:
  void TearDown() override {
    FunctionService control({});
    TableService table;
    auto transport = CreateMpiTransport({.runtime = &Mpi(),
                                         .cluster = *ClusterOf(Mpi()),
                                         .incarnation = 1,
                                         .environment = Machine()});
    ASSERT_THAT(transport, IsOk());
    ASSERT_THAT((*transport)->Start(&control, &table), IsOk());
    (*transport)->Shutdown();
    const int last = *Mpi().size() - 1;
    EndMpi();
    EXPECT_THAT(CallAndWait((*transport)->control(), 0, StepRequest(1)),
                StatusIs(absl::StatusCode::kCancelled, testing::_));
    WaitingReceiver receiver(4);
    const RecvRequest recv{.num_bytes = 4, .receiver = &receiver};
    (*transport)->transfers().Request(0, KeyOf(1), recv);
    EXPECT_THAT(receiver.Wait(),
                StatusIs(absl::StatusCode::kCancelled, testing::_));
    CancelRequest((*transport)->transfers(), KeyOf(1),
                  absl::AbortedError("late"));
    for (int task : {0, last}) {
      (*transport)->OnSilent(task, absl::UnavailableError("silent"));
      (*transport)->Drop({task, 1}, absl::UnavailableError("silent"));
    }
  }
};

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string mode = argc == 2 ? argv[1] : "near";
  if (mode == "closed") {  // MPI then reads no memory either.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  }
  if (mode == "funneled") tutti::GrantFunneledOnly();
  if (!tutti::StartMpi({.shares_memory = mode != "far",
                        .is_funneled = mode == "funneled",
                        .is_cuda_aware = mode == "aware",
                        .is_closed = mode == "closed",
                        .is_mute = mode == "mute"})) {
    return 2;
  }
  testing::AddGlobalTestEnvironment(new tutti::WhoCallsWhenMpiIsOver());
  return RUN_ALL_TESTS();
}
