#include "outfeed/remote/stream_link.h"

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "outfeed/parcel.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Execution number of the link's transfers; collectives never use it.
constexpr uint64_t kStreamExecution = std::numeric_limits<uint64_t>::max();

std::shared_ptr<const CollectiveRequest> RequestOf(
    int rank, const OutfeedConnection& connection) {
  auto request = std::make_shared<CollectiveRequest>();
  request->group_key = connection.group_key;
  request->group_size = 2;
  request->device_type = connection.device->attributes().name.type;
  request->rank = rank;
  request->instance_key = connection.instance_key;
  request->op = Barrier();
  return request;
}

}  // namespace

// Deletes itself when the transfer ends.
class StreamLink::Transfer : public Sender, public Receiver {
 public:
  Transfer(std::shared_ptr<StreamLink> link, absl::Span<std::byte> into,
           StatusCallback done)
      : link_(std::move(link)), into_(into), done_(std::move(done)) {}

  void OnReleased(int32_t /*id*/, absl::Status status) override {
    Finish(std::move(status));
  }

  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> part) override {
    if (offset > into_.size() || part.size() > into_.size() - offset) {
      return absl::InternalError("a part is outside of what was asked for");
    }
    if (!part.empty()) {
      std::memcpy(into_.data() + offset, part.data(), part.size());
    }
    return absl::OkStatus();
  }

  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery delivery) override {
    if (status.ok() && !delivery.bytes.empty()) {
      status = OnPart(0, 0, delivery.bytes);
    }
    delivery.Release(status);
    Finish(std::move(status));
  }

 private:
  void Finish(absl::Status status) {
    const std::unique_ptr<Transfer> self(this);
    if (!status.ok()) {
      link_->End(std::move(status));
      status = link_->status();
    }
    std::move(done_)(std::move(status));
    done_ = nullptr;
    link_->EndUse();
  }

  const std::shared_ptr<StreamLink> link_;
  const absl::Span<std::byte> into_;
  StatusCallback done_;
};

void StreamLink::Connect(int rank, OutfeedConnection connection,
                         ConnectCallback done) {
  if (connection.executor == nullptr || connection.device == nullptr) {
    return std::move(done)(absl::InvalidArgumentError(
        "the connection of an outfeed needs an executor and a device"));
  }
  CollectiveArgs args;
  args.device = connection.device;
  args.request = RequestOf(rank, connection);
  args.deadline = connection.deadline;
  args.cancellation = connection.cancellation;
  CollectiveExecutor& executor = *connection.executor;
  executor.Prepare(
      std::move(args), [rank, connection = std::move(connection),
                        done = std::move(done)](auto prepared) mutable {
        if (!prepared.ok()) return std::move(done)(prepared.status());
        const std::shared_ptr<StreamLink> link(
            new StreamLink(rank, connection, *std::move(prepared)));
        link->WatchGroup();
        link->WatchPeer();
        link->Meet({.deadline = connection.deadline,
                    .cancellation = std::move(connection.cancellation)},
                   std::move(done));
      });
}

StreamLink::StreamLink(int rank, const OutfeedConnection& connection,
                       std::shared_ptr<PreparedCollective> prepared)
    : rank_(rank),
      executor_(connection.executor),
      prepared_(std::move(prepared)),
      group_(prepared_->params().group),
      exec_{.generation = group_->generation,
            .step = executor_->step_id(),
            .group = connection.group_key,
            .instance = connection.instance_key,
            .execution = kStreamExecution} {}

StreamLink::~StreamLink() {
  MutexLock lock(&mu_);
  group_->cancellation->Unwatch(watch_);
}

void StreamLink::WatchGroup() {
  const Cancellation::WatchId watch =
      group_->cancellation->Watch(IfAlive(weak_from_this(), &StreamLink::End));
  MutexLock lock(&mu_);
  watch_ = watch;
}

void StreamLink::WatchPeer() {
  Receive(TagOf(StreamTag::kWatch, 0), absl::MakeSpan(never_posted_),
          [self = shared_from_this()](const absl::Status& status) {
            if (!status.ok()) return;
            self->End(absl::InternalError(
                absl::StrCat(self->device(1 - self->rank_).name.ToString(),
                             " has lent what no end of an outfeed lends")));
          });
}

// Starts the group. Each end watches the other before they meet: afterwards
// neither end can end unnoticed.
void StreamLink::Meet(PreparedCollective::Limits limits, ConnectCallback done) {
  prepared_->Start(std::move(limits),
                   [self = shared_from_this(),
                    done = std::move(done)](absl::Status status) mutable {
                     if (status.ok()) status = self->status();
                     if (status.ok()) return std::move(done)(std::move(self));
                     self->End(status);
                     std::move(done)(std::move(status));
                   });
}

void StreamLink::Post(int32_t tag, absl::Span<const std::byte> bytes,
                      StatusCallback released) {
  if (!Begin(/*num_uses=*/2)) return std::move(released)(status());
  // Keeps the link: the transfer may end inside the call and drop the last
  // owner.
  const auto self = shared_from_this();
  Transfer* const transfer =
      std::make_unique<Transfer>(self, absl::Span<std::byte>(),
                                 std::move(released))
          .release();
  const int peer = 1 - rank_;
  executor_->peers().PostToPeer(group_->members[static_cast<size_t>(peer)],
                                KeyOf(tag, rank_),
                                {.bytes = bytes,
                                 .dtype = DType::kUint8,
                                 .incarnation = device(rank_).incarnation,
                                 .sender = transfer});
  EndBegun();
}

void StreamLink::Receive(int32_t tag, absl::Span<std::byte> into,
                         StatusCallback done) {
  if (!Begin(/*num_uses=*/2)) return std::move(done)(status());
  const auto self = shared_from_this();
  Transfer* const transfer =
      std::make_unique<Transfer>(self, into, std::move(done)).release();
  const int peer = 1 - rank_;
  executor_->peers().RecvFromPeer(group_->members[static_cast<size_t>(peer)],
                                  KeyOf(tag, peer),
                                  {.num_bytes = into.size(),
                                   .dtype = DType::kUint8,
                                   .incarnation = device(peer).incarnation,
                                   .receiver = transfer});
  EndBegun();
}

void StreamLink::End(absl::Status reason) {
  const auto self = shared_from_this();
  if (reason.ok()) reason = absl::CancelledError("ended");
  reason = Named(reason);
  {
    MutexLock lock(&mu_);
    if (!status_.ok()) return;
    status_ = reason;
    ++num_uses_;
  }
  CancelTransfers(reason);
  ended_.Cancel(std::move(reason));
  EndUse();
}

absl::Status StreamLink::status() const {
  MutexLock lock(&mu_);
  return status_;
}

BufKey StreamLink::KeyOf(int32_t tag, int from) const {
  return {.exec = exec_, .tag = tag, .from = from, .to = 1 - from};
}

bool StreamLink::Begin(int num_uses) {
  MutexLock lock(&mu_);
  if (!status_.ok()) return false;
  num_uses_ += num_uses;
  return true;
}

void StreamLink::EndUse() {
  {
    MutexLock lock(&mu_);
    --num_uses_;
    if (status_.ok() || num_uses_ > 0) return;
  }
  executor_->peers().ForgetExecution(exec_);
}

// Cancels transfers that began after the end. If the other end is in this
// process, it may have ended and forgotten the transfers before this one began.
void StreamLink::EndBegun() {
  const absl::Status ended = status();
  if (!ended.ok()) CancelTransfers(ended);
  EndUse();
}

void StreamLink::CancelTransfers(const absl::Status& reason) {
  executor_->peers().CancelExecution(*group_, exec_, reason);
}

absl::Status StreamLink::Named(const absl::Status& reason) const {
  const std::string sender = device(kSender).name.ToString();
  if (absl::StrContains(reason.message(), sender)) return reason;
  return absl::Status(
      reason.code(),
      absl::StrCat("outfeed of ", sender, ", received at ",
                   device(kReceiver).name.ToString(), ": ", reason.message()));
}

}  // namespace tutti
