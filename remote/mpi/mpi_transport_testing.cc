#include "remote/mpi/mpi_transport_testing.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"

namespace tutti {
namespace {

alignas(MpiRuntime) std::byte runtime_memory[sizeof(MpiRuntime)];
MpiRuntime* runtime = nullptr;
MpiTestMode mode_of_job;

// Forbids shared memory in the mute mode.
void Mute() {
  if (!Mode().is_mute) return;
  EXPECT_TRUE(ForbidSystemCall(SYS_memfd_create));
}

}  // namespace

bool StartMpi(const MpiTestMode& mode) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) return false;

  mode_of_job = mode;
  runtime = new (runtime_memory)
      MpiRuntime({.environment = Machine(),
                  .shares_memory = mode.shares_memory,
                  .same_host_memory = !IsUnwilling(std::atoi(rank)),
                  .is_cuda_aware = mode.is_cuda_aware,
                  .on_thread = Mute});
  return absl::IsFailedPrecondition(runtime->size().status()) &&
         runtime->Start().ok();
}

void EndMpi() {
  runtime->~MpiRuntime();
  std::memset(runtime_memory, 0xff, sizeof(runtime_memory));
}

MpiRuntime& Mpi() { return *runtime; }

const MpiTestMode& Mode() { return mode_of_job; }

bool IsUnwilling(int rank) { return Mode().is_closed && rank % 2 == 1; }

const Environment& Machine() {
  static const DefaultEnvironment threads(2);
  return threads.get();
}

BufKey KeyOf(int tag) { return {.tag = tag}; }

std::vector<std::byte> Pattern(size_t num_bytes, int seed) {
  std::vector<std::byte> bytes(num_bytes);
  for (size_t i = 0; i < num_bytes; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + seed * 7);
  }
  return bytes;
}

proto::ControlRequest StepRequest(int64_t step) {
  proto::ControlRequest request;
  request.mutable_cleanup_step()->set_step(step);
  return request;
}

void MpiTransportTest::SetUp() {
  cluster_ = ClusterOf(Mpi()).value();
  auto transport =
      CreateMpiTransport({.runtime = &Mpi(),
                          .cluster = cluster_,
                          .incarnation = 100 + static_cast<uint64_t>(rank()),
                          .environment = Machine()});
  ASSERT_THAT(transport, IsOk());
  transport_ = *std::move(transport);
  ASSERT_THAT(transport_->Start(&control_, &table_), IsOk());
  Meet();
}

void MpiTransportTest::TearDown() {
  Meet();
  AnswerUntil(std::numeric_limits<int64_t>::max());
  transport_->Shutdown();
}

void MpiTransportTest::Meet() {
  ++num_meetings_;
  AnswerUntil(num_meetings_);
  for (int task = 0; task < size(); ++task) {
    const absl::Status status = CallAndWait(transport_->control(), task,
                                            StepRequest(-1000 - num_meetings_))
                                    .status();
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  }
}

void MpiTransportTest::Request(int task, int tag, Receiver& receiver,
                               size_t num_bytes) {
  transport_->transfers().Request(
      task, KeyOf(tag),
      {.num_bytes = num_bytes, .dtype = DType::kUint8, .receiver = &receiver});
}

void MpiTransportTest::RequestInto(int task, int tag,
                                   WaitingReceiver& receiver) {
  transport_->transfers().Request(task, KeyOf(tag),
                                  {.num_bytes = receiver.into().size(),
                                   .dtype = DType::kUint8,
                                   .receiver = &receiver,
                                   .into = receiver.into()});
}

void MpiTransportTest::OnMpiThread(const std::function<void()>& work) {
  BlockingCounter has_run(1);
  Mpi().engine().Post([&] {
    work();
    has_run.DecrementCount();
  });
  has_run.Wait();
}

bool MpiTransportTest::Reads(int task) {
  bool reads = false;
  OnMpiThread([&] { reads = Mpi().engine().memory_of(task) != nullptr; });
  return reads;
}

void MpiTransportTest::Answer(const ControlCaller& caller, int64_t step,
                              ControlDone done) {
  if (step > 0) {
    proto::ControlReply reply;
    reply.mutable_step_sequence()->set_step_id(step * 100 + caller.task);
    return std::move(done)(reply);
  }
  if (step > -1000) {
    return std::move(done)(
        absl::Status(static_cast<absl::StatusCode>(-step), "went wrong \n%"));
  }
  {
    MutexLock lock(&mu_);
    if (-1000 - step > answered_until_) {
      waiting_.emplace(-1000 - step, std::move(done));
      return;
    }
  }
  std::move(done)(proto::ControlReply());
}

void MpiTransportTest::AnswerUntil(int64_t last_meeting) {
  std::multimap<int64_t, ControlDone> due;
  {
    MutexLock lock(&mu_);
    answered_until_ = last_meeting;
    while (!waiting_.empty() && waiting_.begin()->first <= last_meeting) {
      due.insert(waiting_.extract(waiting_.begin()));
    }
  }
  for (auto& [meeting, done] : due) std::move(done)(proto::ControlReply());
}

}  // namespace tutti
