// The tests of a transport over MPI that each process of a job runs, in step
// with the others: mpirun_test.py starts them. With the argument "far" they do
// as if each were on a host of its own; with "funneled" MPI is for calls from
// one thread; with "aware" it is taken for one that is CUDA-aware; with
// "closed" each second one neither reads others' memory nor lets them read its
// own, and the system soon lets nobody.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/blocking_counter.h"
#include "framework/default_environment.h"
#include "framework/last_holder.h"
#include "framework/mutex.h"
#include "framework/peer_access.h"
#include "framework/step_stream.h"
#include "proto/mpi.pb.h"
#include "remote/fake_services.h"
#include "remote/mpi/mpi_choice.h"
#include "remote/mpi/mpi_pulls.h"
#include "remote/mpi/mpi_runtime.h"
#include "remote/mpi/mpi_transport.h"
#include "remote/mpi/mpi_wire.h"
#include "remote/peer_memory.h"
#include "tests/forbid_system_call.h"
#include "tests/mpi_thread.h"
#include "tests/status_matchers.h"

namespace {

// In this process, of at least the size of a chunk.
std::atomic<int> num_large_allocations = 0;

void* Allocate(size_t size) {
  if (size >= tutti::kChunkBytes) ++num_large_allocations;
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Of this process; there is one MPI.
DefaultEnvironment& Machine() {
  static DefaultEnvironment environment(2);
  return environment;
}
alignas(MpiRuntime) std::byte runtime_memory[sizeof(MpiRuntime)];
MpiRuntime* runtime = nullptr;
bool shares_memory = true;
bool is_funneled = false;
bool is_cuda_aware = false;
bool is_closed = false;  // The job.

bool IsUnwilling(int rank) { return is_closed && rank % 2 == 1; }

bool StartRuntime() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) return false;

  runtime = new (runtime_memory)
      MpiRuntime({.environment = Machine().get(),
                  .shares_memory = shares_memory,
                  .same_host_memory = !IsUnwilling(std::atoi(rank)),
                  .is_cuda_aware = is_cuda_aware});
  return absl::IsFailedPrecondition(runtime->size().status()) &&
         runtime->Start().ok();
}

// Leaves nothing of it that could be used.
void EndRuntime() {
  runtime->~MpiRuntime();
  std::memset(runtime_memory, 0xff, sizeof(runtime_memory));
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

// A transport on every process. Answers a call for a step above 0 by that
// number and its caller's; fails one for a step below; and keeps one for step 0
// until it, too, meets the others.
class MpiTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto cluster = ClusterOf(*runtime);
    ASSERT_THAT(cluster, IsOk());
    cluster_ = *cluster;
    auto transport =
        CreateMpiTransport({.runtime = runtime,
                            .cluster = cluster_,
                            .incarnation = 100 + static_cast<uint64_t>(rank()),
                            .environment = Machine().get()});
    ASSERT_THAT(transport, IsOk());
    transport_ = *std::move(transport);
    ASSERT_THAT(transport_->Start(&control_, &table_), IsOk());
    Meet();
  }
  void TearDown() override {
    Meet();
    AnswerUntil(std::numeric_limits<int64_t>::max());
    transport_->Shutdown();
  }

  int rank() const { return cluster_.this_task; }
  int size() const { return cluster_.num_tasks(); }
  int next() const { return (rank() + 1) % size(); }

  // Returns when all processes have called it. Whoever has shut down since then
  // has called it, too.
  void Meet() {
    ++num_meetings_;
    AnswerUntil(num_meetings_);
    for (int task = 0; task < size(); ++task) {
      const absl::Status status =
          CallAndWait(transport_->control(), task,
                      StepRequest(-1000 - num_meetings_))
              .status();
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    }
  }

  // Those who wait for meetings that have been.
  void AnswerUntil(int64_t last_meeting) {
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

  void Answer(const ControlCaller& caller, int64_t step, ControlDone done) {
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

  // Asks `task` for what it provides under `tag`.
  void Request(int task, int tag, Borrower& borrower, size_t num_bytes) {
    transport_->transfers().Request(task, KeyOf(tag),
                                    {.num_bytes = num_bytes,
                                     .dtype = DType::kUint8,
                                     .borrower = &borrower});
  }

  // The same for bytes that may come to where they go.
  void RequestInto(int task, int tag, WaitingBorrower& borrower) {
    transport_->transfers().Request(task, KeyOf(tag),
                                    {.num_bytes = borrower.into().size(),
                                     .dtype = DType::kUint8,
                                     .borrower = &borrower,
                                     .into = borrower.into()});
  }

  // Blocks until `work` has run there.
  static void OnMpiThread(const std::function<void()>& work) {
    BlockingCounter has_run(1);
    runtime->Post([&] {
      work();
      has_run.DecrementCount();
    });
    has_run.Wait();
  }

  // Whether this process reads `task`'s memory, as far as the runtime knows.
  static bool Reads(int task) {
    bool reads = false;
    OnMpiThread([&] { reads = runtime->memory_of(task) != nullptr; });
    return reads;
  }

  ClusterSpec cluster_;
  FunctionService control_{
      [this](const ControlCaller& caller, const proto::ControlRequest& request,
             std::shared_ptr<Cancellation> /*withdrawn*/, ControlDone done) {
        EXPECT_EQ(caller.incarnation, 100 + static_cast<uint64_t>(caller.task));
        Answer(caller, request.cleanup_step().step(), std::move(done));
      }};
  TableService table_;
  std::unique_ptr<Transport> transport_;
  int64_t num_meetings_ = 0;

  Mutex mu_;
  int64_t answered_until_ ABSL_GUARDED_BY(mu_) = 0;
  std::multimap<int64_t, ControlDone> waiting_ ABSL_GUARDED_BY(mu_);
};

// Once in a job, before all that is to be sent then.
TEST_F(MpiTransportTest, WhatCannotBeReadAnyMoreIsSent) {
  if (!is_closed) return;
  constexpr size_t kNumBytes = 5 * kChunkBytes + 3;
  bool is_forbidden = false;
  HookedBorrower borrower(kNumBytes, [&](size_t num_received) {
    if (num_received == 2 * kMemoryBlockBytes) {
      is_forbidden =
          ForbidSystemCall(SYS_process_vm_readv);  // On MPI's thread.
    }
  });
  const int other = (rank() + 2) % size();
  const std::vector<std::byte> bytes = Pattern(kNumBytes, rank());
  WaitingLender lender;
  EXPECT_EQ(Reads(other), !IsUnwilling(rank()) && !IsUnwilling(other));
  Request(other, 1, borrower, kNumBytes);
  table_.Provide(KeyOf(1), {.bytes = bytes, .lender = &lender});
  EXPECT_THAT(borrower.bytes().Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  EXPECT_TRUE(is_forbidden);
  EXPECT_TRUE(borrower.bytes().bytes() == Pattern(kNumBytes, other));
}

TEST_F(MpiTransportTest, WhatIsReadComesWhereItGoes) {
  const std::vector<std::byte> bytes = Pattern((size_t{2} << 20) + 5, rank());
  WaitingLender lender;
  WaitingBorrower borrower(bytes.size());
  table_.Provide(KeyOf(1), {.bytes = bytes, .lender = &lender});
  RequestInto(next(), 1, borrower);
  EXPECT_THAT(borrower.Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  EXPECT_TRUE(borrower.bytes() == Pattern(bytes.size(), next()));
  const auto hosts = *runtime->hosts();
  const bool is_near =
      rank() == next() || (shares_memory && hosts[rank()] == hosts[next()]);
  EXPECT_EQ(borrower.num_in_place(),
            is_near && !is_cuda_aware && !is_closed ? 3 : 0);
}

TEST_F(MpiTransportTest, TheRuntimeKnowsThePlaces) {
  EXPECT_EQ(*runtime->size(), size());
  const auto hosts = *runtime->hosts();
  const auto own = hosts.begin() + rank();
  const auto num_before = std::count(hosts.begin(), own, *own);
  const auto num_here = std::count(hosts.begin(), hosts.end(), *own);
  EXPECT_EQ(*runtime->local_rank(), shares_memory ? num_before : 0);
  EXPECT_EQ(*runtime->local_size(), shares_memory ? num_here : 1);
  EXPECT_THAT(runtime->Start(),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
}

TEST_F(MpiTransportTest, MessagesCostLessOnOneHost) {
  const bool is_one_host = *runtime->local_size() == size();
  EXPECT_EQ(
      transport_->cost_model().between.latency_seconds,
      (is_one_host ? MpiCostOnOneHost(size(), *runtime->local_processors())
                   : CostModel())
          .between.latency_seconds);
}

TEST_F(MpiTransportTest, TheRuntimeSaysWhichLevelOfThreadSupportIsGranted) {
  EXPECT_THAT(
      *runtime->Describe(),
      HasSubstr(is_funneled ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_MULTIPLE"));
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
    WaitingBorrower borrower(4);
    Request(task, 1, borrower, 4);
    EXPECT_THAT(borrower.Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("no task")));
  }
}

TEST_F(MpiTransportTest, CallsEndAtTheirDeadlineAndWhenCancelled) {
  const int64_t never = -1'000'000;
  EXPECT_THAT(
      CallAndWait(transport_->control(), next(), StepRequest(never),
                  {.deadline = Machine().get().clock->Now()}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no answer")));
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel(absl::AbortedError("enough"));
  EXPECT_THAT(CallAndWait(transport_->control(), next(), StepRequest(never),
                          {.cancellation = cancellation}),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST_F(MpiTransportTest, BytesOfEverySizeArriveAndTheLenderIsTold) {
  int tag = 0;
  for (const size_t num_bytes :
       {size_t{0}, size_t{1}, kMaxInlineBytes, kMaxInlineBytes + 1,
        kChunkBytes - 1, kChunkBytes, kChunkBytes + 1,
        kChunksAtATime * kChunkBytes + 1, 11 * kChunkBytes + 3}) {
    ++tag;
    const std::vector<std::byte> bytes = Pattern(num_bytes, rank());
    WaitingLender lender;
    WaitingBorrower borrower(num_bytes);
    // Now before the request, now after it.
    if (tag % 2 == 0) Request(next(), tag, borrower, num_bytes);
    table_.Provide(KeyOf(tag), {.bytes = bytes, .lender = &lender});
    if (tag % 2 != 0) Request(next(), tag, borrower, num_bytes);
    EXPECT_THAT(borrower.Wait(), IsOk());
    EXPECT_THAT(lender.Wait(), IsOk());
    EXPECT_TRUE(borrower.bytes() == Pattern(num_bytes, next())) << num_bytes;
  }
}

TEST_F(MpiTransportTest, ManyAtATimeArrive) {
  constexpr int kNumTransfers = 200;
  const auto size_of = [](int tag) {
    return static_cast<size_t>(tag % 4 == 0 ? 700'001 : 13 * tag);
  };
  std::vector<std::vector<std::byte>> bytes;
  std::vector<WaitingLender> lenders(kNumTransfers);
  std::vector<std::unique_ptr<WaitingBorrower>> borrowers;
  for (int tag = 0; tag < kNumTransfers; ++tag) {
    bytes.push_back(Pattern(size_of(tag), rank() + tag));
    borrowers.push_back(std::make_unique<WaitingBorrower>(size_of(tag)));
    Request(next(), tag, *borrowers[tag], size_of(tag));
  }
  for (int tag = kNumTransfers - 1; tag >= 0; --tag) {
    table_.Provide(KeyOf(tag), {.bytes = bytes[tag], .lender = &lenders[tag]});
  }
  for (int tag = 0; tag < kNumTransfers; ++tag) {
    EXPECT_THAT(borrowers[tag]->Wait(), IsOk());
    EXPECT_TRUE(borrowers[tag]->bytes() == Pattern(size_of(tag), next() + tag));
    EXPECT_THAT(lenders[tag].Wait(), IsOk());
  }
}

TEST_F(MpiTransportTest, PullsThatFollowOneAnotherUseTheSameMemory) {
  const std::vector<std::byte> bytes =
      Pattern(2 * kChunksAtATime * kChunkBytes, rank());
  constexpr int kNumPulls = 10;
  std::vector<WaitingLender> lenders(kNumPulls);
  std::vector<std::unique_ptr<WaitingBorrower>> borrowers;
  for (int tag = 0; tag < kNumPulls; ++tag) {
    borrowers.push_back(std::make_unique<WaitingBorrower>(bytes.size()));
    table_.Provide(KeyOf(tag), {.bytes = bytes, .lender = &lenders[tag]});
  }
  const auto hosts = *runtime->hosts();
  const bool is_near = shares_memory && hosts[rank()] == hosts[next()];
  const int before = num_large_allocations;
  for (int tag = 0; tag < kNumPulls; ++tag) {
    Request(next(), tag, *borrowers[tag], bytes.size());
    EXPECT_THAT(borrowers[tag]->Wait(), IsOk());
  }
  EXPECT_LE(num_large_allocations - before,
            is_near ? 1 : static_cast<int>(kChunksAtATime));
  for (WaitingLender& lender : lenders) EXPECT_THAT(lender.Wait(), IsOk());
}

TEST_F(MpiTransportTest, ARequestThatIsCancelledIsWithdrawn) {
  for (const size_t num_bytes : {size_t{4}, 3 * kChunkBytes}) {
    WaitingBorrower borrower(num_bytes);
    Request(next(), 1, borrower, num_bytes);
    WaitingBorrower other(num_bytes);
    transport_->transfers().Cancel(next(), KeyOf(1), &other,
                                   absl::AbortedError("not yours"));
    transport_->transfers().Cancel(next(), KeyOf(1), &borrower,
                                   absl::AbortedError("not now"));
    EXPECT_THAT(borrower.Wait(),
                StatusIs(absl::StatusCode::kAborted, "not now"));
  }
  // The tags of those can be used again.
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingLender lender;
  WaitingBorrower borrower(bytes.size());
  Request(next(), 2, borrower, bytes.size());
  table_.Provide(KeyOf(2), {.bytes = bytes, .lender = &lender});
  EXPECT_THAT(borrower.Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  EXPECT_TRUE(borrower.bytes() == Pattern(bytes.size(), next()));
}

TEST_F(MpiTransportTest, ACancelledRequestIsAwaitedUntilItsTaskHasEndedIt) {
  for (const size_t num_bytes : {size_t{4}, 3 * kChunkBytes}) {
    WaitingBorrower waiting(num_bytes);
    Request(next(), 1, waiting, num_bytes);
    WaitingBorrower cancelled(num_bytes);
    Request(next(), 2, cancelled, num_bytes);
    transport_->transfers().Cancel(next(), KeyOf(2), &cancelled,
                                   absl::AbortedError("not now"));
    EXPECT_FALSE(cancelled.Wait().ok());
    for (const int64_t step : {KeyOf(2).exec.step, KeyOf(2).exec.step + 1}) {
      BlockingCounter ended(1);
      transport_->transfers().AwaitCancelled(step,
                                             [&] { ended.DecrementCount(); });
      ended.Wait();
    }
    transport_->transfers().Cancel(next(), KeyOf(1), &waiting,
                                   absl::AbortedError("nor this"));
    EXPECT_FALSE(waiting.Wait().ok());
    Meet();
  }
}

TEST_F(MpiTransportTest, NobodyAwaitsCancelledRequestsOfATaskThatIsLost) {
  int num_ended = 0;
  const auto hold = [&](MpiPulls& pulls) {
    pulls.HoldWithCancelled(KeyOf(1).exec.step,
                            std::make_shared<LastHolder>([&] { ++num_ended; }));
  };
  const absl::Status reason = absl::UnavailableError("lost");
  WaitingBorrower borrower(4);
  OnMpiThread([&] {
    MpiPulls pulls(runtime, [](int, const proto::MpiMessage&) {});
    pulls.Request(next(), KeyOf(1), {.num_bytes = 4, .borrower = &borrower});
    hold(pulls);
    EXPECT_EQ(num_ended, 1);  // It goes on.
    pulls.Cancel(KeyOf(1), &borrower, reason);
    hold(pulls);
    EXPECT_EQ(num_ended, 1);
    pulls.CancelAllOf(next(), reason);
    EXPECT_EQ(num_ended, 2);
    hold(pulls);
    EXPECT_EQ(num_ended, 3);
  });
  EXPECT_EQ(borrower.Wait(), reason);
}

// What lies where the lease should be cannot be told from one that is gone.
TEST_F(MpiTransportTest, ALeaseThatCannotBeReadAnyMoreEndsTheRequest) {
  // Its own memory, like that of others; where it may.
  if (is_closed || !Reads(rank())) return;
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingBorrower borrower(bytes.size());
  std::vector<proto::MpiMessage> sent;
  OnMpiThread([&] {
    MpiPulls pulls(runtime, [&](int task, proto::MpiMessage message) {
      EXPECT_EQ(task, rank());
      sent.push_back(std::move(message));
    });
    pulls.Request(rank(), KeyOf(1),
                  {.num_bytes = bytes.size(),
                   .dtype = DType::kUint8,
                   .borrower = &borrower});
    ASSERT_EQ(sent.size(), 1);
    proto::MpiPlace place;
    place.set_id(sent[0].pull().id());
    place.set_address(reinterpret_cast<uintptr_t>(bytes.data()));
    place.set_num_bytes(bytes.size());
    place.set_lease_address(0);  // Where no process has memory.
    place.set_lease(1);
    pulls.OnPlace(rank(), place);
    while (pulls.HandOnNext()) {
    }
  });
  EXPECT_THAT(borrower.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("cannot be read any more")));
  ASSERT_EQ(sent.size(), 2);
  EXPECT_EQ(sent[1].cancel_pull().id(), sent[0].pull().id());
}

TEST_F(MpiTransportTest, EachOfTwoThatAskForOneKeyMayCancel) {
  WaitingBorrower first(4), second(4);
  Request(next(), 1, first, 4);
  Request(next(), 1, second, 4);
  transport_->transfers().Cancel(next(), KeyOf(1), &first,
                                 absl::AbortedError("not now"));
  EXPECT_THAT(first.Wait(), StatusIs(absl::StatusCode::kAborted, "not now"));
  transport_->transfers().Cancel(next(), KeyOf(1), &second,
                                 absl::AbortedError("nor now"));
  EXPECT_FALSE(second.Wait().ok());  // By that, or because it came second.
}

TEST_F(MpiTransportTest, ABorrowerThatRefusesAPartIsToldItsReason) {
  const std::vector<std::byte> bytes = Pattern(20 * kChunkBytes, rank());
  WaitingLender lender;
  RefusingBorrower borrower(/*offset=*/1, absl::DataLossError("does not fit"));
  table_.Provide(KeyOf(1), {.bytes = bytes, .lender = &lender});
  Request(next(), 1, borrower, bytes.size());
  EXPECT_THAT(borrower.Wait(),
              StatusIs(absl::StatusCode::kDataLoss, "does not fit"));
  // It may have sent everything by then.
  lender.Wait().IgnoreError();
}

// What stands for memory of a device.
class FakeLanding final : public DeviceLanding {
 public:
  explicit FakeLanding(size_t num_bytes) : bytes_(num_bytes) {}
  absl::Span<std::byte> bytes() const override {
    return absl::MakeSpan(bytes_);
  }

 private:
  mutable std::vector<std::byte> bytes_;
};

// Has landings for all parts but each third.
class LandingBorrower final : public Borrower {
 public:
  explicit LandingBorrower(size_t num_bytes) : bytes_(num_bytes) {}

  std::shared_ptr<DeviceLanding> Land(int32_t /*id*/,
                                      size_t num_bytes) override {
    EXPECT_FALSE(is_told_);
    if (++num_asked_ % 3 == 0) return nullptr;
    auto landing = std::make_shared<FakeLanding>(num_bytes);
    landings_.push_back(landing);
    return landing;
  }
  absl::Status OnLanded(int32_t /*id*/, size_t offset,
                        std::shared_ptr<DeviceLanding> part) override {
    EXPECT_EQ(part, landings_[num_landed_++].lock());
    return Take(offset, part->bytes());
  }
  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> part) override {
    ++num_others_;
    return Take(offset, part);
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    status_ = std::move(status);
    is_told_ = true;
    had_landings_ = has_landings();
    told_.DecrementCount();
  }

  // Blocks until all has come or failed.
  absl::Status Wait() {
    told_.Wait();
    return status_;
  }

  // After Wait().
  const std::vector<std::byte>& bytes() const { return bytes_; }
  int num_asked() const { return num_asked_; }
  size_t num_landed() const { return num_landed_; }
  size_t num_others() const { return num_others_; }

  // Whether anybody still has one; had one when this was told of the end.
  bool had_landings() const { return had_landings_; }
  bool has_landings() const {
    return absl::c_any_of(
        landings_, [](const auto& landing) { return !landing.expired(); });
  }

 private:
  absl::Status Take(size_t offset, absl::Span<const std::byte> part) {
    EXPECT_FALSE(is_told_);
    absl::c_copy(part, bytes_.begin() + static_cast<ptrdiff_t>(offset));
    return absl::OkStatus();
  }

  std::vector<std::byte> bytes_;
  std::vector<std::weak_ptr<DeviceLanding>> landings_;
  int num_asked_ = 0;
  size_t num_landed_ = 0;
  size_t num_others_ = 0;
  bool is_told_ = false;
  bool had_landings_ = false;
  BlockingCounter told_{1};
  absl::Status status_;
};

TEST_F(MpiTransportTest, SaysFromHowManyBytesOnItWritesToDevices) {
  EXPECT_EQ(transport_->least_device_bytes(),
            is_cuda_aware ? kMaxInlineBytes + 1 : kNoDeviceBytes);
}

TEST_F(MpiTransportTest, ChunksComeToLandingsWhereMpiIsCudaAware) {
  int tag = 0;
  for (const size_t num_chunks : {1, 2, 3, 20}) {
    const size_t num_bytes = num_chunks * kChunkBytes - 7;
    const std::vector<std::byte> bytes = Pattern(num_bytes, rank());
    WaitingLender lender;
    LandingBorrower borrower(num_bytes);
    table_.Provide(KeyOf(++tag), {.bytes = bytes, .lender = &lender});
    Request(next(), tag, borrower, num_bytes);
    EXPECT_THAT(borrower.Wait(), IsOk());
    EXPECT_THAT(lender.Wait(), IsOk());
    EXPECT_TRUE(borrower.bytes() == Pattern(num_bytes, next()));
    const size_t num_others = is_cuda_aware ? num_chunks / 3 : num_chunks;
    EXPECT_EQ(borrower.num_others(), num_others);
    EXPECT_EQ(borrower.num_landed(), num_chunks - num_others);
    EXPECT_FALSE(borrower.has_landings());
  }
}

TEST_F(MpiTransportTest, FewBytesComeToNoLanding) {
  const std::vector<std::byte> bytes = Pattern(kMaxInlineBytes, rank());
  WaitingLender lender;
  LandingBorrower borrower(bytes.size());
  table_.Provide(KeyOf(1), {.bytes = bytes, .lender = &lender});
  Request(next(), 1, borrower, bytes.size());
  EXPECT_THAT(borrower.Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  EXPECT_TRUE(borrower.bytes() == Pattern(bytes.size(), next()));
  EXPECT_EQ(borrower.num_asked(), 0);
}

// The borrower is told, and may go, while MPI may still write there.
TEST_F(MpiTransportTest, LandingsOfACancelledRequestLastUntilMpiIsDone) {
  for (int round = 0; round < 6; ++round) {
    const std::vector<std::byte> bytes = Pattern(20 * kChunkBytes, rank());
    const int tag = 600 + round;
    WaitingLender lender;
    LandingBorrower borrower(bytes.size());
    if (round % 2 == 0) {
      table_.Provide(KeyOf(tag), {.bytes = bytes, .lender = &lender});
    }
    Meet();  // Then who asks gets it, or nobody does.
    Request(next(), tag, borrower, bytes.size());
    transport_->transfers().Cancel(next(), KeyOf(tag), &borrower,
                                   absl::AbortedError("not now"));
    const absl::Status status = borrower.Wait();
    EXPECT_EQ(borrower.num_asked() > 0, is_cuda_aware);
    if (round % 2 == 0) {  // All may have come before.
      EXPECT_THAT(status, AnyOf(IsOk(), StatusIs(absl::StatusCode::kAborted,
                                                 "not now")));
    } else {  // Where nothing was lent MPI still waits for it.
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, "not now"));
      EXPECT_EQ(borrower.had_landings(), is_cuda_aware);
    }
    Meet();
    transport_->Shutdown();
    EXPECT_FALSE(borrower.has_landings());
    if (round % 2 == 0) lender.Wait().IgnoreError();  // With either.
    SetUp();
  }
}

// Each both pulls and is pulled from when it goes.
TEST_F(MpiTransportTest, ShuttingDownInTheMiddleOfATransferFreesBothSides) {
  for (int round = 0; round < 5; ++round) {
    const std::vector<std::byte> bytes = Pattern(60 * kChunkBytes, rank());
    WaitingLender lender;
    WaitingBorrower borrower(bytes.size());
    table_.Provide(KeyOf(500 + round), {.bytes = bytes, .lender = &lender});
    Request(next(), 500 + round, borrower, bytes.size());
    borrower.WaitForPart();
    Meet();  // Then the other side pulls, too.
    transport_->Shutdown();
    const absl::Status status = borrower.Wait();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) ||
                absl::IsUnavailable(status))
        << status;
    lender.Wait().IgnoreError();  // With either.
    SetUp();
  }
}

// Stands still, and MPI's thread with it, from its first part on until rank 0
// sends something under `tag`.
class StuckBorrower final : public Borrower {
 public:
  explicit StuckBorrower(int tag) : tag_(tag) {}

  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> /*part*/) override {
    if (offset == 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/0, tag_, runtime->messages(),
               MPI_STATUS_IGNORE);
    }
    return absl::OkStatus();
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    status_ = std::move(status);
    told_.DecrementCount();
  }

  // Blocks until all has come or failed.
  absl::Status Wait() {
    told_.Wait();
    return status_;
  }

 private:
  const int tag_;
  BlockingCounter told_{1};
  absl::Status status_;
};

TEST_F(MpiTransportTest, BytesThatWereTakenBackBeforeTheEndAreNoResult) {
  const auto hosts = *runtime->hosts();
  if (size() == 1 || !shares_memory || is_cuda_aware || is_closed ||
      hosts[0] != hosts[1]) {
    return;  // Nothing is read.
  }
  const int is_read = runtime->NewMessageTag();
  const int may_go_on = runtime->NewMessageTag();
  constexpr size_t kNumBlocks = 3;
  const std::vector<std::byte> bytes(kNumBlocks * kMemoryBlockBytes);
  WaitingLender lender;
  HookedBorrower borrower(bytes.size(), [&](size_t num_received) {
    if (num_received < bytes.size()) return;
    MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/0, is_read, runtime->messages());
    MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/0, may_go_on, runtime->messages(),
             MPI_STATUS_IGNORE);
  });
  if (rank() == 1) Request(0, 1, borrower, bytes.size());
  if (rank() == 0) {
    table_.WaitForAsks(1);
    table_.Provide(KeyOf(1), {.bytes = bytes, .lender = &lender});
    OnMpiThread([&] {
      MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/1, is_read, runtime->messages(),
               MPI_STATUS_IGNORE);
    });
    transport_->Shutdown();
    EXPECT_THAT(lender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("has shut down")));
    OnMpiThread([&] {
      MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/1, may_go_on,
               runtime->messages());
    });
  }
  if (rank() == 1) {
    EXPECT_THAT(
        borrower.bytes().Wait(),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has shut down")));
  }
  transport_->Shutdown();
  SetUp();
}

// Rank 0 says goodbye while rank 1 stands still.
TEST_F(MpiTransportTest, WhatMpiHasIsReadAlsoAfterALateGoodbye) {
  if (size() == 1) return;
  const int tag = runtime->NewMessageTag();
  const std::vector<std::byte> bytes(60 * kChunkBytes);
  WaitingLender lender;
  StuckBorrower borrower(tag);
  if (rank() == 1) Request(0, 1, borrower, bytes.size());
  if (rank() == 0) {
    table_.WaitForAsks(1);
    table_.Provide(KeyOf(1), {.bytes = bytes, .lender = &lender});
    transport_->Shutdown();
    runtime->Post([tag] {
      MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/1, tag, runtime->messages());
    });
    EXPECT_THAT(lender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("has shut down")));
  }
  if (rank() == 1) {
    EXPECT_THAT(borrower.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
  }
  transport_->Shutdown();
  SetUp();
}

TEST_F(MpiTransportTest, WhatIsAskedOfATaskThatShutsDownEnds) {
  if (size() == 1) return;
  // Rank 0 goes first, while all others ask it for something.
  WaitingBorrower borrower(4);
  if (rank() != 0) {
    Request(0, 100 + rank(), borrower, 4);
    Meet();
    EXPECT_THAT(borrower.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
    EXPECT_THAT(
        CallAndWait(transport_->control(), 0, StepRequest(1)),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has shut down")));
    // As who asks it whether it is there: it has ended well.
    transport_->OnSilent(0, absl::UnavailableError("silent"));
    CallAndWait(transport_->control(), rank(), StepRequest(1)).IgnoreError();
    EXPECT_EQ(runtime->WhoIsLost(), "");
  } else {
    Meet();
  }
  transport_->Shutdown();
  EXPECT_THAT(CallAndWait(transport_->control(), rank(), StepRequest(1)),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  SetUp();  // Another one in its place.
}

TEST_F(MpiTransportTest, WhoSaysGoodbyeIsNotLost) {
  if (size() == 1) return;
  runtime->CallLost(next(), absl::UnavailableError("silent"));
  EXPECT_EQ(runtime->WhoIsLost(), absl::StrCat("rank ", next(), " (silent)"));
  Meet();
  transport_->Shutdown();
  SetUp();
  Meet();  // What was said before has been heard.
  EXPECT_EQ(runtime->WhoIsLost(), "");
}

// One that refuses this process will end, too.
TEST_F(MpiTransportTest, OnlyWhoIsSilentKeepsMpiFromWaitingForIt) {
  const absl::Status why = absl::UnavailableError("why");
  const auto who_is_lost = [&] {
    CallAndWait(transport_->control(), rank(), StepRequest(1)).IgnoreError();
    return runtime->WhoIsLost();
  };
  transport_->Drop({rank(), 1}, why);
  EXPECT_EQ(who_is_lost(), "");
  transport_->OnSilent(rank(), why);
  EXPECT_EQ(who_is_lost(), absl::StrCat("rank ", rank(), " (why)"));
  runtime->CallFound(rank());
}

// A thread that stood still as MPI ended has it. Nothing is to look at where
// the runtime was.
class WhoCallsWhenMpiIsOver : public testing::Environment {
 public:
  void TearDown() override {
    FunctionService control({});
    TableService table;
    auto transport = CreateMpiTransport({.runtime = runtime,
                                         .cluster = *ClusterOf(*runtime),
                                         .incarnation = 1,
                                         .environment = Machine().get()});
    ASSERT_THAT(transport, IsOk());
    ASSERT_THAT((*transport)->Start(&control, &table), IsOk());
    (*transport)->Shutdown();
    const int last = *runtime->size() - 1;
    EndRuntime();
    EXPECT_THAT(CallAndWait((*transport)->control(), 0, StepRequest(1)),
                StatusIs(absl::StatusCode::kCancelled, testing::_));
    WaitingBorrower borrower(4);
    const Ask ask{.num_bytes = 4, .borrower = &borrower};
    (*transport)->transfers().Request(0, KeyOf(1), ask);
    EXPECT_THAT(borrower.Wait(),
                StatusIs(absl::StatusCode::kCancelled, testing::_));
    (*transport)
        ->transfers()
        .Cancel(0, KeyOf(1), &borrower, absl::AbortedError("late"));
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
  tutti::shares_memory = mode != "far";
  tutti::is_funneled = mode == "funneled";
  tutti::is_cuda_aware = mode == "aware";
  tutti::is_closed = mode == "closed";
  if (tutti::is_closed) {  // MPI then reads no memory, either.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  }
  if (tutti::is_funneled) tutti::GrantFunneledOnly();
  if (!tutti::StartRuntime()) return 2;
  testing::AddGlobalTestEnvironment(new tutti::WhoCallsWhenMpiIsOver());
  return RUN_ALL_TESTS();
}
