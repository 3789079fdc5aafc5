// Tests of the parts that transports share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "remote/peer_memory.h"
#include "remote/served_requests.h"
#include "remote/transport_registry.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"

namespace tutti {
namespace transport_parts_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// --- Requests of other tasks -------------------------------------------------

constexpr size_t kMaxWaiting = 2;
constexpr absl::Duration kLifetime = absl::Seconds(30);

class RecordedRequest : public ServedRequest {
 public:
  using ServedRequest::ServedRequest;

  std::optional<absl::Status> end;

 private:
  void OnAnswer(absl::Status status, const Delivery&) override {
    EXPECT_FALSE(end.has_value());
    end = std::move(status);
  }
};

// Requests of a group that this process does not know before KnowGroup().
class ServedRequestsTest : public testing::Test {
 protected:
  std::shared_ptr<RecordedRequest> Serve(int task, int tag) {
    const BufKey key = {
        .exec = {.generation = 1, .step = 5, .group = 7}, .tag = tag, .to = 1};
    auto request = std::make_shared<RecordedRequest>(
        ControlCaller{.task = task}, key, RecvRequest{.num_bytes = 4});
    requests_->Serve(requests_, request);
    return request;
  }

  // Rank i is in task i.
  void KnowGroup() {
    auto group = std::make_shared<CollGroupParams>();
    group->key = 7;
    group->generation = 1;
    for (int task : {0, 1}) {
      group->members.push_back({{.name = {"worker", 0, task, "CPU", 0}}});
    }
    group->cancellation = std::make_shared<Cancellation>();
    groups_->Add(group);
    requests_->OnGroupChange(7);
  }

  SimulatedEnvironment simulated_{/*seed=*/1};
  BufRendezvous rendezvous_{BufRendezvous::kNoBound};
  const std::shared_ptr<GroupDirectory> groups_ =
      std::make_shared<GroupDirectory>();
  const std::shared_ptr<ServedRequests> requests_ =
      std::make_shared<ServedRequests>(
          ServedRequests::Options{
              .cluster = {.addresses = {"a:1", "b:1"}, .this_task = 0},
              .clock = simulated_.get().clock,
              .groups = groups_,
              .max_waiting = kMaxWaiting,
              .early_lifetime = kLifetime},
          &rendezvous_);
};

TEST_F(ServedRequestsTest, AnUnknownGroupEndsTheRequestAfterTheLifetime) {
  const auto request = Serve(1, 0);
  EXPECT_EQ(requests_->size(), 1u);
  EXPECT_FALSE(request->end.has_value());
  simulated_.Advance(kLifetime);
  EXPECT_THAT(request->end, testing::Optional(IsNotFound("has not heard")));
  EXPECT_EQ(requests_->size(), 0u);
}

TEST_F(ServedRequestsTest, AWithdrawnRequestGetsTheReasonOnce) {
  for (const bool is_early : {true, false}) {
    const auto request = Serve(1, 0);
    if (!is_early) KnowGroup();
    requests_->Withdraw(request, absl::CancelledError("gone"));
    EXPECT_THAT(request->end,
                testing::Optional(StatusIs(StatusCode::kCancelled, "gone")));
    requests_->Withdraw(request, absl::CancelledError("again"));
    EXPECT_EQ(requests_->size(), 0u);
  }
  simulated_.Advance(kLifetime);
}

TEST_F(ServedRequestsTest, AWaitingKeyIsRefused) {
  const auto early = Serve(1, 0);
  KnowGroup();
  const auto second = Serve(1, 0);
  EXPECT_THAT(second->end,
              testing::Optional(IsAlreadyExists("asked for twice")));
  EXPECT_FALSE(early->end.has_value());
}

TEST_F(ServedRequestsTest, AnEndedGenerationEndsItsRequests) {
  KnowGroup();
  const auto request = Serve(1, 0);
  groups_->End(7, 1, absl::UnavailableError("task 1 was lost"));
  requests_->OnGroupChange(7);
  EXPECT_THAT(
      request->end,
      testing::Optional(IsUnavailable("generation 1 of group 7 has ended")));
  EXPECT_EQ(rendezvous_.num_waiting(), 0u);
}

TEST_F(ServedRequestsTest, TheBoundCountsTheRequestsOfOneTask) {
  std::vector<std::shared_ptr<RecordedRequest>> of_one;
  for (size_t i = 0; i < kMaxWaiting + 1; ++i) {
    of_one.push_back(Serve(1, static_cast<int>(i)));
  }
  const auto of_other = Serve(0, 100);
  EXPECT_THAT(of_one[kMaxWaiting]->end,
              testing::Optional(IsResourceExhausted("already has 2")));
  EXPECT_FALSE(of_one[0]->end.has_value());
  EXPECT_FALSE(of_other->end.has_value());
  simulated_.Advance(kLifetime);
}

// --- Memory of other processes -----------------------------------------------

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
  LoanReader reader(*Open(challenge_, 5), lease.PlaceOf(bytes));
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
  LoanReader reader(*Open(challenge_, 5), lease.PlaceOf(bytes));
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
  LoanReader reader(*Open(challenge_, 5), Nowhere(lease.PlaceOf(bytes)));
  EXPECT_THAT(reader.ReadNext(/*into=*/{}, block_), IsEmpty());
  EXPECT_EQ(reader.num_read(), 0);
  EXPECT_FALSE(reader.has_all());
  EXPECT_TRUE(reader.AreLoaned());
}

TEST_F(PeerMemoryTest, BytesAreLentUntilTheirLeaseIsCleared) {
  const std::vector<std::byte> bytes = Pattern(100);
  MemoryLease lease(*environment_.get().random);
  MemoryLease other(*environment_.get().random);
  const MemoryPlace place = lease.PlaceOf(bytes);
  EXPECT_NE(place.lease, 0);
  EXPECT_NE(place.lease, other.PlaceOf(bytes).lease);
  const LoanReader reader(*Open(challenge_, 5), place);
  EXPECT_TRUE(reader.AreLoaned());
  EXPECT_FALSE(reader.WereTakenBack());
  lease.Clear();
  EXPECT_FALSE(reader.AreLoaned());
  EXPECT_TRUE(reader.WereTakenBack());
}

TEST_F(PeerMemoryTest, OfALeaseThatCannotBeReadNothingIsKnown) {
  const MemoryLease lease(*environment_.get().random);
  MemoryPlace place = lease.PlaceOf({});
  place.lease_address = 8;
  const LoanReader reader(*Open(challenge_, 5), place);
  EXPECT_FALSE(reader.AreLoaned());
  EXPECT_FALSE(reader.WereTakenBack());
}

// --- Registry ----------------------------------------------------------------

TransportRegistry::Entry Named(const std::string& job) {
  return {[job](const NetworkSettings&) -> absl::StatusOr<TaskNetwork> {
    return TaskNetwork{.cluster = {.job = job}};
  }};
}

TEST(TransportRegistryTest, FindsTransportsByName) {
  TransportRegistry registry;
  EXPECT_THAT(registry.Register("pigeon", Named("p")), IsOk());
  EXPECT_THAT(registry.Register("drum", Named("d")), IsOk());
  EXPECT_THAT(registry.names(), ElementsAre("drum", "pigeon"));
  EXPECT_EQ(registry.Find("drum")->connect({})->cluster.job, "d");
  EXPECT_THAT(registry.status(), IsOk());
}

TEST(TransportRegistryTest, AnUnknownNameIsAnErrorThatListsTheOthers) {
  TransportRegistry registry;
  EXPECT_THAT(registry.Register("pigeon", Named("p")), IsOk());
  EXPECT_THAT(registry.Find("raven"),
              IsNotFound("\"raven\" is linked; there are: pigeon"));
}

TEST(TransportRegistryTest, ANameThatIsTakenIsAnErrorAndTheFirstStays) {
  TransportRegistry registry;
  EXPECT_THAT(registry.Register("pigeon", Named("first")), IsOk());
  EXPECT_THAT(registry.Register("pigeon", Named("second")),
              IsAlreadyExists("pigeon"));
  EXPECT_EQ(registry.Find("pigeon")->connect({})->cluster.job, "first");
  EXPECT_THAT(registry.status(), IsAlreadyExists("pigeon"));
}

}  // namespace transport_parts_test
}  // namespace tutti
