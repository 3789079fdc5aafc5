#include "remote/mpi/mpi_serves.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "framework/control/wire_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/transfer_channel.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace mpi_serves_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps the last request, and delivers nothing by itself.
class KeepingService final : public TransferService {
 public:
  void Serve(std::shared_ptr<ServedRequest> request) override {
    receiver = std::move(request);
  }
  void Withdraw(const std::shared_ptr<ServedRequest>& /*request*/,
                absl::Status /*reason*/) override {}

  std::shared_ptr<ServedRequest> receiver;
};

class RecordingSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status status) override {
    released.push_back(std::move(status));
    if (lease != nullptr) lease_then = *lease;
  }

  std::vector<absl::Status> released;
  const uint64_t* lease = nullptr;  // Read when the bytes are released.
  uint64_t lease_then = ~uint64_t{0};
};

constexpr uint64_t kId = 7;

// Pull by task 1 that the service has not answered: of 4 bytes, or of many that
// the task must read. Without MPI, which sends neither.
class MpiServesTest : public ::testing::Test {
 protected:
  explicit MpiServesTest(size_t num_bytes = 4) : bytes_(num_bytes) {
    PullRequest request;
    request.recv.num_bytes = bytes_.size();
    request.may_read_memory = num_bytes > kMaxInlineBytes;
    proto::MpiPull message;
    message.set_id(kId);
    EncodePull(request, message);
    serves_->OnPull({.task = 1}, message, &service_, absl::OkStatus());
  }

  void Post() {
    std::exchange(service_.receiver, nullptr)
        ->OnDelivery(0, absl::OkStatus(),
                     {.bytes = bytes_, .sender = &sender_});
  }

  // Runs the work that waits for MPI's thread.
  void RunPosted() {
    for (Work& work : runtime_->mailbox()->TakeAll()) std::move(work)();
  }

  const std::vector<std::byte> bytes_;
  SimulatedEnvironment environment_{1};
  KeepingService service_;
  RecordingSender sender_;
  std::vector<proto::MpiMessage> sent_;
  std::optional<MpiEngine> runtime_{
      MpiEngine::Options{.environment = environment_.get()}};
  std::optional<MpiServes> serves_{
      MpiServes::Options{.runtime = &*runtime_,
                         .random = environment_.get().random,
                         .send = [this](int /*task*/, auto message) {
                           sent_.push_back(std::move(message));
                         }}};
};

TEST_F(MpiServesTest, BytesAreSentOnMpisThreadAndGivenBack) {
  Post();
  EXPECT_THAT(sent_, IsEmpty());
  RunPosted();
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].pulled().payload().size(), bytes_.size());
  EXPECT_THAT(sender_.released, ElementsAre(IsOk()));
  EXPECT_EQ(serves_->num_served(), 0u);
}

// Simulates a thread that holds the bytes while it stands still.
TEST_F(MpiServesTest, WhatIsLentWhenMpiIsOverIsGivenBackAtOnce) {
  serves_->StopAllOf(1, absl::UnavailableError("has shut down"));
  serves_->ForgetUnreported();
  EXPECT_EQ(serves_->num_served(), 0u);
  runtime_->mailbox()->Close();
  serves_.reset();
  runtime_.reset();
  Post();
  EXPECT_THAT(sender_.released, ElementsAre(IsUnavailable("has shut down")));
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(MpiServesTest, WhatEndsBeforeItIsLentIsGivenBackUnsent) {
  const absl::Status late = absl::DeadlineExceededError("late");
  serves_->Cancel([](const BufKey&) { return true; }, late);
  Post();
  RunPosted();
  EXPECT_THAT(sender_.released, ElementsAre(late));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(DecodeError(sent_[0].pulled().error()), late);
}

TEST_F(MpiServesTest, WhatIsLentBetweenTheEndsIsGivenBackOnMpisThread) {
  serves_->StopAllOf(1, absl::UnavailableError("has shut down"));
  serves_->ForgetUnreported();
  Post();
  EXPECT_THAT(sender_.released, IsEmpty());
  RunPosted();
  EXPECT_THAT(sender_.released, ElementsAre(IsUnavailable("has shut down")));
  EXPECT_THAT(sent_, IsEmpty());
}

// Pull of many bytes whose place the task knows.
class MpiServesLentTest : public MpiServesTest {
 protected:
  MpiServesLentTest() : MpiServesTest(kMaxInlineBytes + 4) {
    Post();
    RunPosted();
    place_ = sent_.at(0).place();
    sent_.clear();
    const uint64_t address = place_.lease_address();
    std::memcpy(&sender_.lease, &address, sizeof(address));
  }
  ~MpiServesLentTest() override {
    const bool was_given_back = !sender_.released.empty();
    EXPECT_TRUE(!was_given_back || sender_.lease_then == 0);
  }

  void ReportRead(int task, uint64_t id) {
    proto::MpiRead read;
    read.set_id(id);
    serves_->OnRead(task, read);
  }

  void RequestRest(int task, uint64_t num_read, int payload_tag) {
    proto::MpiSendRest rest;
    rest.set_id(kId);
    rest.set_num_read(num_read);
    rest.set_payload_tag(payload_tag);
    serves_->OnSendRest(task, rest);
  }

  proto::MpiPlace place_;
};

TEST_F(MpiServesLentTest, TheReceiverIsToldWhereTheBytesAre) {
  EXPECT_EQ(place_.id(), kId);
  EXPECT_EQ(place_.address(), reinterpret_cast<uintptr_t>(bytes_.data()));
  EXPECT_EQ(place_.num_bytes(), bytes_.size());
  EXPECT_NE(place_.lease(), 0);
  EXPECT_EQ(*sender_.lease, place_.lease());
  EXPECT_THAT(sender_.released, IsEmpty());
  EXPECT_FALSE(serves_->is_sending());
}

TEST_F(MpiServesLentTest, BytesThatWereReadAreGivenBackWithoutAWord) {
  ReportRead(1, kId);
  EXPECT_THAT(sender_.released, ElementsAre(IsOk()));
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(serves_->num_served(), 0u);
}

TEST_F(MpiServesLentTest, OnlyTheReceiverHasReadThem) {
  ReportRead(2, kId);
  ReportRead(1, kId + 1);
  RequestRest(2, 0, 1);
  EXPECT_THAT(sender_.released, IsEmpty());
}

// Released at once, though the receiver may only stand still.
TEST_F(MpiServesLentTest, BytesOfAReceiverThatIsLostAreGivenBackAtOnce) {
  serves_->StopAllOf(1, absl::UnavailableError("silent"));
  EXPECT_FALSE(serves_->IsHeldBy(1));
  EXPECT_THAT(sender_.released,
              ElementsAre(StatusIs(absl::StatusCode::kUnavailable, "silent")));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(sent_[0].pulled().has_error());
  ReportRead(1, kId);  // Comes too late.
  EXPECT_EQ(sender_.released.size(), 1u);
}

TEST_F(MpiServesLentTest, BytesOfAPullThatIsCancelledAreGivenBackAtOnce) {
  proto::MpiCancelPull cancel;
  cancel.set_id(kId);
  *cancel.mutable_reason() = EncodeError(absl::AbortedError("enough"));
  serves_->OnCancelPull(1, cancel);
  EXPECT_THAT(sender_.released,
              ElementsAre(StatusIs(absl::StatusCode::kAborted, "enough")));
}

TEST_F(MpiServesLentTest, WhatEndsHereIsGivenBackThoughTheReceiverReadsOn) {
  const absl::Status late = absl::DeadlineExceededError("late");
  serves_->Cancel([](const BufKey& key) { return key.tag == 1; }, late);
  EXPECT_THAT(sender_.released, IsEmpty());
  serves_->Cancel([](const BufKey& key) { return key.tag == 0; }, late);
  EXPECT_THAT(sender_.released, ElementsAre(late));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(DecodeError(sent_[0].pulled().error()), late);
  ReportRead(1, kId);  // Comes too late.
  EXPECT_EQ(sender_.released.size(), 1u);
}

TEST_F(MpiServesLentTest, ARestThatMakesNoSenseEndsThePull) {
  RequestRest(1, bytes_.size(), 1);
  const auto is_named = IsInvalidArgument("send_rest.num_read is 8196");
  EXPECT_THAT(sender_.released, ElementsAre(is_named));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_THAT(DecodeError(sent_[0].pulled().error()), is_named);
}

TEST_F(MpiServesLentTest, ARestNeedsATag) {
  RequestRest(1, 0, runtime_->max_tag() + 1);
  EXPECT_THAT(sender_.released, ElementsAre(IsInvalidArgument("payload_tag")));
}

}  // namespace mpi_serves_test
}  // namespace tutti
