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
// The order counts: at first those of memory that is read, after which a
// "closed" job lets nobody read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/mpi.pb.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_pulls.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "remote/peer_memory.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_thread.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/mpi_transport.h"
#include "tutti/peer_access.h"

namespace {

// Counts allocations in this process of at least the size of a chunk.
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

// --- Reading of memory -------------------------------------------------------

// Runs once in a job, before all tests whose bytes must then be sent.
TEST_F(MpiTransportTest, WhatCannotBeReadAnyMoreIsSent) {
  if (!Mode().is_closed) return;
  constexpr size_t kNumBytes = 5 * kChunkBytes + 3;
  bool is_forbidden = false;
  WaitingReceiver receiver(kNumBytes, [&](size_t num_received) {
    if (num_received == 2 * kMemoryBlockBytes) {
      is_forbidden =
          ForbidSystemCall(SYS_process_vm_readv);  // Runs on MPI's thread.
    }
    return absl::OkStatus();
  });
  const int other = (rank() + 2) % size();
  const std::vector<std::byte> bytes = Pattern(kNumBytes, rank());
  WaitingSender sender;
  EXPECT_EQ(Reads(other), !IsUnwilling(rank()) && !IsUnwilling(other));
  Request(other, 1, receiver, kNumBytes);
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(is_forbidden);
  EXPECT_TRUE(receiver.bytes() == Pattern(kNumBytes, other));
}

TEST_F(MpiTransportTest, WhatIsReadComesWhereItGoes) {
  const std::vector<std::byte> bytes = Pattern((size_t{2} << 20) + 5, rank());
  WaitingSender sender;
  WaitingReceiver receiver(bytes.size());
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  RequestInto(next(), 1, receiver);
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == Pattern(bytes.size(), next()));
  const auto hosts = *Mpi().hosts();
  const bool is_near = rank() == next() ||
                       (Mode().shares_memory && hosts[rank()] == hosts[next()]);
  EXPECT_EQ(receiver.num_in_place(),
            is_near && !Mode().is_cuda_aware && !Mode().is_closed ? 3 : 0);
}

// Unreadable leases look like cleared ones.
TEST_F(MpiTransportTest, ALeaseThatCannotBeReadAnyMoreEndsTheRequest) {
  // Reads its own memory, like that of others, if permitted.
  if (Mode().is_closed || !Reads(rank())) return;
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingReceiver receiver(bytes.size());
  std::vector<proto::MpiMessage> sent;
  OnMpiThread([&] {
    MpiPulls pulls(&Mpi().engine(), [&](int task, proto::MpiMessage message) {
      EXPECT_EQ(task, rank());
      sent.push_back(std::move(message));
    });
    pulls.Request(rank(), KeyOf(1),
                  {.num_bytes = bytes.size(),
                   .dtype = DType::kUint8,
                   .receiver = &receiver});
    ASSERT_EQ(sent.size(), 1);
    proto::MpiPlace place;
    place.set_id(sent[0].pull().id());
    place.set_address(reinterpret_cast<uintptr_t>(bytes.data()));
    place.set_num_bytes(bytes.size());
    place.set_lease_address(0);  // No process has memory there.
    place.set_lease(1);
    pulls.OnPlace(rank(), place);
    while (pulls.HandOnNext()) {
    }
  });
  EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("cannot be read any more")));
  ASSERT_EQ(sent.size(), 2);
  EXPECT_EQ(sent[1].cancel_pull().id(), sent[0].pull().id());
}

TEST_F(MpiTransportTest, BytesThatWereTakenBackBeforeTheEndAreNoResult) {
  const auto hosts = *Mpi().hosts();
  if (size() == 1 || !Mode().shares_memory || Mode().is_cuda_aware ||
      Mode().is_closed || hosts[0] != hosts[1]) {
    return;  // Nothing is read in this mode.
  }
  const int is_read = Mpi().engine().NewMessageTag();
  const int may_go_on = Mpi().engine().NewMessageTag();
  constexpr size_t kNumBlocks = 3;
  const std::vector<std::byte> bytes(kNumBlocks * kMemoryBlockBytes);
  WaitingSender sender;
  WaitingReceiver receiver(bytes.size(), [&](size_t num_received) {
    if (num_received < bytes.size()) return absl::OkStatus();
    MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/0, is_read,
             Mpi().engine().messages());
    MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/0, may_go_on,
             Mpi().engine().messages(), MPI_STATUS_IGNORE);
    return absl::OkStatus();
  });
  if (rank() == 1) Request(0, 1, receiver, bytes.size());
  if (rank() == 0) {
    table_.WaitForRequests(1);
    table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
    OnMpiThread([&] {
      MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/1, is_read,
               Mpi().engine().messages(), MPI_STATUS_IGNORE);
    });
    transport_->Shutdown();
    EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("has shut down")));
    OnMpiThread([&] {
      MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/1, may_go_on,
               Mpi().engine().messages());
    });
  }
  if (rank() == 1) {
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
  }
  transport_->Shutdown();
  SetUp();
}

// --- Cancelled requests ------------------------------------------------------

TEST_F(MpiTransportTest, ARequestThatIsCancelledIsWithdrawn) {
  for (const size_t num_bytes : {size_t{4}, 3 * kChunkBytes}) {
    WaitingReceiver receiver(num_bytes);
    Request(next(), 1, receiver, num_bytes);
    CancelRequest(transport_->transfers(), KeyOf(0),
                  absl::AbortedError("another"));
    CancelRequest(transport_->transfers(), KeyOf(1),
                  absl::AbortedError("not now"));
    EXPECT_THAT(receiver.Wait(),
                StatusIs(absl::StatusCode::kAborted, "not now"));
  }
  // Tags of cancelled requests can be used again.
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingSender sender;
  WaitingReceiver receiver(bytes.size());
  Request(next(), 2, receiver, bytes.size());
  table_.Provide(KeyOf(2), {.bytes = bytes, .sender = &sender});
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == Pattern(bytes.size(), next()));
}

// --- Landings ----------------------------------------------------------------

// Landing in host memory, in the place of a device's.
class FakeLanding final : public DeviceLanding {
 public:
  explicit FakeLanding(size_t num_bytes) : bytes_(num_bytes) {}
  absl::Span<std::byte> bytes() const override {
    return absl::MakeSpan(bytes_);
  }

 private:
  mutable std::vector<std::byte> bytes_;
};

// Has landings for two of three parts.
class LandingReceiver final : public Receiver {
 public:
  explicit LandingReceiver(size_t num_bytes) : bytes_(num_bytes) {}

  std::shared_ptr<DeviceLanding> Land(int32_t /*id*/,
                                      size_t num_bytes) override {
    EXPECT_FALSE(is_reported_);
    if (++num_requested_ % 3 == 0) return nullptr;
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
    is_reported_ = true;
    had_landings_ = has_landings();
    reported_.DecrementCount();
  }

  // Blocks until all bytes have come, or the transfer has failed.
  absl::Status Wait() {
    reported_.Wait();
    return status_;
  }

  // Call after Wait().
  const std::vector<std::byte>& bytes() const { return bytes_; }
  int num_requested() const { return num_requested_; }
  size_t num_landed() const { return num_landed_; }
  size_t num_others() const { return num_others_; }

  // Return whether a landing exists: at OnDelivery(), and now.
  bool had_landings() const { return had_landings_; }
  bool has_landings() const {
    return absl::c_any_of(
        landings_, [](const auto& landing) { return !landing.expired(); });
  }

 private:
  absl::Status Take(size_t offset, absl::Span<const std::byte> part) {
    EXPECT_FALSE(is_reported_);
    absl::c_copy(part, bytes_.begin() + static_cast<ptrdiff_t>(offset));
    return absl::OkStatus();
  }

  std::vector<std::byte> bytes_;
  std::vector<std::weak_ptr<DeviceLanding>> landings_;
  int num_requested_ = 0;
  size_t num_landed_ = 0;
  size_t num_others_ = 0;
  bool is_reported_ = false;
  bool had_landings_ = false;
  BlockingCounter reported_{1};
  absl::Status status_;
};

TEST_F(MpiTransportTest, SaysFromHowManyBytesOnItWritesToDevices) {
  EXPECT_EQ(transport_->least_device_bytes(),
            Mode().is_cuda_aware ? kMaxInlineBytes + 1 : kNoDeviceBytes);
}

TEST_F(MpiTransportTest, ChunksComeToLandingsWhereMpiIsCudaAware) {
  int tag = 0;
  for (const size_t num_chunks : {1, 2, 3, 20}) {
    const size_t num_bytes = num_chunks * kChunkBytes - 7;
    const std::vector<std::byte> bytes = Pattern(num_bytes, rank());
    WaitingSender sender;
    LandingReceiver receiver(num_bytes);
    table_.Provide(KeyOf(++tag), {.bytes = bytes, .sender = &sender});
    Request(next(), tag, receiver, num_bytes);
    EXPECT_THAT(receiver.Wait(), IsOk());
    EXPECT_THAT(sender.Wait(), IsOk());
    EXPECT_TRUE(receiver.bytes() == Pattern(num_bytes, next()));
    const size_t num_others =
        Mode().is_cuda_aware ? num_chunks / 3 : num_chunks;
    EXPECT_EQ(receiver.num_others(), num_others);
    EXPECT_EQ(receiver.num_landed(), num_chunks - num_others);
    EXPECT_FALSE(receiver.has_landings());
  }
}

TEST_F(MpiTransportTest, FewBytesComeToNoLanding) {
  const std::vector<std::byte> bytes = Pattern(kMaxInlineBytes, rank());
  WaitingSender sender;
  LandingReceiver receiver(bytes.size());
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  Request(next(), 1, receiver, bytes.size());
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == Pattern(bytes.size(), next()));
  EXPECT_EQ(receiver.num_requested(), 0);
}

// OnDelivery() runs, and the receiver may go, while MPI may still write there.
TEST_F(MpiTransportTest, LandingsOfACancelledRequestLastUntilMpiIsDone) {
  for (int round = 0; round < 6; ++round) {
    const std::vector<std::byte> bytes = Pattern(20 * kChunkBytes, rank());
    const int tag = 600 + round;
    WaitingSender sender;
    LandingReceiver receiver(bytes.size());
    if (round % 2 == 0) {
      table_.Provide(KeyOf(tag), {.bytes = bytes, .sender = &sender});
    }
    Meet();  // From here on a request gets all of its bytes or none.
    Request(next(), tag, receiver, bytes.size());
    CancelRequest(transport_->transfers(), KeyOf(tag),
                  absl::AbortedError("not now"));
    const absl::Status status = receiver.Wait();
    EXPECT_EQ(receiver.num_requested() > 0, Mode().is_cuda_aware);
    if (round % 2 == 0) {  // All bytes may have come before.
      EXPECT_THAT(status, AnyOf(IsOk(), StatusIs(absl::StatusCode::kAborted,
                                                 "not now")));
    } else {  // Without an offer MPI still waits for it.
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, "not now"));
      EXPECT_EQ(receiver.had_landings(), Mode().is_cuda_aware);
    }
    Meet();
    transport_->Shutdown();
    EXPECT_FALSE(receiver.has_landings());
    if (round % 2 == 0) sender.Wait().IgnoreError();  // Either result is right.
    SetUp();
  }
}

// --- Shutdown and loss -------------------------------------------------------

// Each process both pulls and serves when it shuts down.
TEST_F(MpiTransportTest, ShuttingDownInTheMiddleOfATransferFreesBothSides) {
  for (int round = 0; round < 5; ++round) {
    const std::vector<std::byte> bytes = Pattern(60 * kChunkBytes, rank());
    WaitingSender sender;
    WaitingReceiver receiver(bytes.size());
    table_.Provide(KeyOf(500 + round), {.bytes = bytes, .sender = &sender});
    Request(next(), 500 + round, receiver, bytes.size());
    receiver.WaitForPart();
    Meet();  // From here on the other side pulls too.
    transport_->Shutdown();
    const absl::Status status = receiver.Wait();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) ||
                absl::IsUnavailable(status))
        << status;
    sender.Wait().IgnoreError();  // Either result is right.
    SetUp();
  }
}

// Blocks MPI's thread from its first part on, until rank 0 sends a message with
// `tag`.
class StuckReceiver final : public Receiver {
 public:
  explicit StuckReceiver(int tag) : tag_(tag) {}

  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> /*part*/) override {
    if (offset == 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/0, tag_,
               Mpi().engine().messages(), MPI_STATUS_IGNORE);
    }
    return absl::OkStatus();
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    status_ = std::move(status);
    reported_.DecrementCount();
  }

  // Blocks until all bytes have come, or the transfer has failed.
  absl::Status Wait() {
    reported_.Wait();
    return status_;
  }

 private:
  const int tag_;
  BlockingCounter reported_{1};
  absl::Status status_;
};

// Rank 0 says goodbye while rank 1 stands still.
TEST_F(MpiTransportTest, WhatMpiHasIsReadAlsoAfterALateGoodbye) {
  if (size() == 1) return;
  const int tag = Mpi().engine().NewMessageTag();
  const std::vector<std::byte> bytes(60 * kChunkBytes);
  WaitingSender sender;
  StuckReceiver receiver(tag);
  if (rank() == 1) Request(0, 1, receiver, bytes.size());
  if (rank() == 0) {
    table_.WaitForRequests(1);
    table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
    transport_->Shutdown();
    Mpi().engine().Post([tag] {
      MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/1, tag,
               Mpi().engine().messages());
    });
    EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("has shut down")));
  }
  if (rank() == 1) {
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
  }
  transport_->Shutdown();
  SetUp();
}

TEST_F(MpiTransportTest, WhatIsAskedOfATaskThatShutsDownEnds) {
  if (size() == 1) return;
  // Rank 0 goes first, while all others request something from it.
  WaitingReceiver receiver(4);
  if (rank() != 0) {
    Request(0, 100 + rank(), receiver, 4);
    Meet();
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
    EXPECT_THAT(
        CallAndWait(transport_->control(), 0, StepRequest(1)),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has shut down")));
    // Report silence, as a health check does. Rank 0 is not lost: it has ended
    // well.
    transport_->OnSilent(0, absl::UnavailableError("silent"));
    CallAndWait(transport_->control(), rank(), StepRequest(1)).IgnoreError();
    EXPECT_EQ(Mpi().engine().WhoIsLost(), "");
  } else {
    Meet();
  }
  transport_->Shutdown();
  EXPECT_THAT(CallAndWait(transport_->control(), rank(), StepRequest(1)),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  SetUp();  // Replaces the transport.
}

TEST_F(MpiTransportTest, WhoSaysGoodbyeIsNotLost) {
  if (size() == 1) return;
  // Let the goodbye arrive that precedes this test: it may have come with the
  // answer that ended SetUp().
  OnMpiThread([] {});
  Mpi().engine().CallLost(next(), absl::UnavailableError("silent"));
  EXPECT_EQ(Mpi().engine().WhoIsLost(),
            absl::StrCat("rank ", next(), " (silent)"));
  Meet();
  transport_->Shutdown();
  SetUp();
  Meet();  // Earlier messages have arrived.
  EXPECT_EQ(Mpi().engine().WhoIsLost(), "");
}

// A process that refuses this one will end too.
TEST_F(MpiTransportTest, OnlyWhoIsSilentKeepsMpiFromWaitingForIt) {
  const absl::Status why = absl::UnavailableError("why");
  const auto who_is_lost = [&] {
    CallAndWait(transport_->control(), rank(), StepRequest(1)).IgnoreError();
    return Mpi().engine().WhoIsLost();
  };
  transport_->Drop({rank(), 1}, why);
  EXPECT_EQ(who_is_lost(), "");
  transport_->OnSilent(rank(), why);
  EXPECT_EQ(who_is_lost(), absl::StrCat("rank ", rank(), " (why)"));
  Mpi().engine().CallFound(rank());
}

// --- Transport ---------------------------------------------------------------

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
        StatusIs(static_cast<absl::StatusCode>(code), "went wrong \\x0a%"));
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

// --- Transfers ---------------------------------------------------------------

TEST_F(MpiTransportTest, BytesOfEverySizeArriveAndTheLenderIsTold) {
  int tag = 0;
  for (const size_t num_bytes :
       {size_t{0}, size_t{1}, kMaxInlineBytes, kMaxInlineBytes + 1,
        kChunkBytes - 1, kChunkBytes, kChunkBytes + 1,
        kChunksAtATime * kChunkBytes + 1, 11 * kChunkBytes + 3}) {
    ++tag;
    const std::vector<std::byte> bytes = Pattern(num_bytes, rank());
    WaitingSender sender;
    WaitingReceiver receiver(num_bytes);
    // Alternate: offer after the request, offer before it.
    if (tag % 2 == 0) Request(next(), tag, receiver, num_bytes);
    table_.Provide(KeyOf(tag), {.bytes = bytes, .sender = &sender});
    if (tag % 2 != 0) Request(next(), tag, receiver, num_bytes);
    EXPECT_THAT(receiver.Wait(), IsOk());
    EXPECT_THAT(sender.Wait(), IsOk());
    EXPECT_TRUE(receiver.bytes() == Pattern(num_bytes, next())) << num_bytes;
  }
}

TEST_F(MpiTransportTest, ManyAtATimeArrive) {
  constexpr int kNumTransfers = 200;
  const auto size_of = [](int tag) {
    return static_cast<size_t>(tag % 4 == 0 ? 700'001 : 13 * tag);
  };
  std::vector<std::vector<std::byte>> bytes;
  std::vector<WaitingSender> senders(kNumTransfers);
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int tag = 0; tag < kNumTransfers; ++tag) {
    bytes.push_back(Pattern(size_of(tag), rank() + tag));
    receivers.push_back(std::make_unique<WaitingReceiver>(size_of(tag)));
    Request(next(), tag, *receivers[tag], size_of(tag));
  }
  for (int tag = kNumTransfers - 1; tag >= 0; --tag) {
    table_.Provide(KeyOf(tag), {.bytes = bytes[tag], .sender = &senders[tag]});
  }
  for (int tag = 0; tag < kNumTransfers; ++tag) {
    EXPECT_THAT(receivers[tag]->Wait(), IsOk());
    EXPECT_TRUE(receivers[tag]->bytes() == Pattern(size_of(tag), next() + tag));
    EXPECT_THAT(senders[tag].Wait(), IsOk());
  }
}

TEST_F(MpiTransportTest, PullsThatFollowOneAnotherUseTheSameMemory) {
  const std::vector<std::byte> bytes =
      Pattern(2 * kChunksAtATime * kChunkBytes, rank());
  constexpr int kNumPulls = 10;
  std::vector<WaitingSender> senders(kNumPulls);
  std::vector<std::unique_ptr<WaitingReceiver>> receivers;
  for (int tag = 0; tag < kNumPulls; ++tag) {
    receivers.push_back(std::make_unique<WaitingReceiver>(bytes.size()));
    table_.Provide(KeyOf(tag), {.bytes = bytes, .sender = &senders[tag]});
  }
  const auto hosts = *Mpi().hosts();
  const bool is_near = Mode().shares_memory && hosts[rank()] == hosts[next()];
  const int before = num_large_allocations;
  for (int tag = 0; tag < kNumPulls; ++tag) {
    Request(next(), tag, *receivers[tag], bytes.size());
    EXPECT_THAT(receivers[tag]->Wait(), IsOk());
  }
  EXPECT_LE(num_large_allocations - before,
            is_near ? 1 : static_cast<int>(kChunksAtATime));
  for (WaitingSender& sender : senders) EXPECT_THAT(sender.Wait(), IsOk());
}

TEST_F(MpiTransportTest, ABorrowerThatRefusesAPartIsToldItsReason) {
  const std::vector<std::byte> bytes = Pattern(20 * kChunkBytes, rank());
  WaitingSender sender;
  WaitingReceiver receiver(bytes.size(), [](size_t num_received) {
    return num_received <= kChunkBytes ? absl::OkStatus()
                                       : absl::DataLossError("does not fit");
  });
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  Request(next(), 1, receiver, bytes.size());
  EXPECT_THAT(receiver.Wait(),
              StatusIs(absl::StatusCode::kDataLoss, "does not fit"));
  // All bytes may have been sent by then.
  sender.Wait().IgnoreError();
}

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
