// Tests of transfers over MPI of any size and number; part of the program of
// mpi_transport_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "absl/status/status.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "tests/doubles/status_matchers.h"
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
  RefusingReceiver receiver(/*offset=*/1, absl::DataLossError("does not fit"));
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  Request(next(), 1, receiver, bytes.size());
  EXPECT_THAT(receiver.Wait(),
              StatusIs(absl::StatusCode::kDataLoss, "does not fit"));
  // All bytes may have been sent by then.
  sender.Wait().IgnoreError();
}

}  // namespace
}  // namespace tutti
