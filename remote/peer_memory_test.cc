#include "remote/peer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "tests/doubles/simulated_environment.h"

namespace tutti {
namespace peer_memory_test {

using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::byte> Pattern(size_t num_bytes) {
  std::vector<std::byte> bytes(num_bytes);
  for (size_t i = 0; i < num_bytes; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  return bytes;
}

// This process's own memory, which every process may read.
class PeerMemoryTest : public testing::Test {
 protected:
  std::optional<PeerMemory> Open(const MemoryChallenge& challenge, int task) {
    return PeerMemory::Open(offer_, challenge, task);
  }

  // Returns an address that no process has, and that cannot be read.
  static MemoryPlace Nowhere(MemoryPlace place) {
    place.address = 8;
    return place;
  }

  const MemoryChallenge challenge_ = {3, 4};
  const MemoryProof proof_{challenge_, /*task=*/5};
  const MemoryOffer offer_ = {.pid = static_cast<uint64_t>(getpid()),
                              .address = reinterpret_cast<uintptr_t>(&proof_)};
  SimulatedEnvironment environment_{/*seed=*/1};
  MemoryBlock block_;
};

TEST_F(PeerMemoryTest, OpensWithTheProofForItsChallengeAndTask) {
  EXPECT_TRUE(Open(challenge_, 5).has_value());
  EXPECT_FALSE(Open({3, 5}, 5).has_value());
  EXPECT_FALSE(Open(challenge_, 6).has_value());
  EXPECT_FALSE(PeerMemory::Open({}, challenge_, 5).has_value());
  EXPECT_FALSE(
      PeerMemory::Open({.pid = offer_.pid, .address = 8}, challenge_, 5)
          .has_value());
  for (const uint64_t pid : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 32,
                             ~uint64_t{0}, (uint64_t{1} << 32) + offer_.pid}) {
    EXPECT_FALSE(PeerMemory::Open({.pid = pid, .address = offer_.address},
                                  challenge_, 5));
  }
}

TEST_F(PeerMemoryTest, BytesAreReadInBlocksUntilAllHaveBeen) {
  const std::vector<std::byte> bytes = Pattern(2 * kMemoryBlockBytes + 3);
  const MemoryLease lease(*environment_.get().random);
  LentReader reader(*Open(challenge_, 5), lease.PlaceOf(bytes));
  std::vector<std::byte> read;
  for (const size_t size : {kMemoryBlockBytes, kMemoryBlockBytes, size_t{3}}) {
    EXPECT_FALSE(reader.has_all());
    const auto block = reader.ReadNext(/*into=*/{}, block_);
    EXPECT_THAT(block, SizeIs(size));
    read.insert(read.end(), block.begin(), block.end());
    EXPECT_EQ(reader.num_read(), read.size());
  }
  EXPECT_TRUE(reader.has_all());
  EXPECT_TRUE(read == bytes);
}

TEST_F(PeerMemoryTest, BytesAreReadToWhereTheyGo) {
  const std::vector<std::byte> bytes = Pattern(kMemoryDirectBytes + 7);
  const MemoryLease lease(*environment_.get().random);
  LentReader reader(*Open(challenge_, 5), lease.PlaceOf(bytes));
  std::vector<std::byte> into(bytes.size());
  const auto first = reader.ReadNext(absl::MakeSpan(into), block_);
  EXPECT_EQ(first.data(), into.data());
  EXPECT_EQ(first.size(), kMemoryDirectBytes);
  const auto second = reader.ReadNext(absl::MakeSpan(into), block_);
  EXPECT_EQ(second.data(), into.data() + kMemoryDirectBytes);
  EXPECT_TRUE(reader.has_all());
  EXPECT_TRUE(into == bytes);
}

TEST_F(PeerMemoryTest, NothingHappensWhereBytesCannotBeRead) {
  const std::vector<std::byte> bytes = Pattern(100);
  const MemoryLease lease(*environment_.get().random);
  LentReader reader(*Open(challenge_, 5), Nowhere(lease.PlaceOf(bytes)));
  EXPECT_THAT(reader.ReadNext(/*into=*/{}, block_), IsEmpty());
  EXPECT_EQ(reader.num_read(), 0);
  EXPECT_FALSE(reader.has_all());
  EXPECT_TRUE(reader.AreLent());
}

TEST_F(PeerMemoryTest, BytesAreLentUntilTheirLeaseIsCleared) {
  const std::vector<std::byte> bytes = Pattern(100);
  MemoryLease lease(*environment_.get().random);
  MemoryLease other(*environment_.get().random);
  const MemoryPlace place = lease.PlaceOf(bytes);
  EXPECT_NE(place.lease, 0);
  EXPECT_NE(place.lease, other.PlaceOf(bytes).lease);
  const LentReader reader(*Open(challenge_, 5), place);
  EXPECT_TRUE(reader.AreLent());
  EXPECT_FALSE(reader.WereTakenBack());
  lease.Clear();
  EXPECT_FALSE(reader.AreLent());
  EXPECT_TRUE(reader.WereTakenBack());
}

TEST_F(PeerMemoryTest, OfALeaseThatCannotBeReadNothingIsKnown) {
  const MemoryLease lease(*environment_.get().random);
  MemoryPlace place = lease.PlaceOf({});
  place.lease_address = 8;
  const LentReader reader(*Open(challenge_, 5), place);
  EXPECT_FALSE(reader.AreLent());
  EXPECT_FALSE(reader.WereTakenBack());
}

}  // namespace peer_memory_test
}  // namespace tutti
