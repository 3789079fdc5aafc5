#include "remote/mpi/mpi_serves.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/control/wire_codec.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/peer_memory.h"

namespace tutti {

// Pull of another task. From the answer on the object holds the bytes.
class MpiServes::Served : public ServedRequest {
 public:
  Served(MpiServes* serves, const ControlCaller& caller, uint64_t id,
         const PullRequest& request, TransferService* service)
      : ServedRequest(caller, request.key, request.recv),
        task(caller.task),
        id(id),
        may_read_memory(request.may_read_memory),
        service(service),
        payload_tag(request.payload_tag),
        serves_(serves),
        mailbox_(serves->options_.runtime->mailbox()) {}

  // Functions for MPI's thread:
  void Forget() { serves_ = nullptr; }
  bool is_whole() const {
    return is_delivered && delivery.bytes.size() == recv.num_bytes &&
           num_sent == delivery.bytes.size() && (num_sent > 0 || stopped.ok());
  }

  const int task;
  const uint64_t id;
  const bool may_read_memory;
  TransferService* const service;

  int payload_tag = 0;
  bool is_reported = false;
  bool is_delivered = false;
  Delivery delivery;
  absl::Status stopped;                // Why no more is sent, if not OK.
  size_t num_sent = 0;                 // Bytes that were read, or given to MPI.
  int num_under_way = 0;               // Chunks that MPI has.
  bool is_said = false;                // Its task knows num_sent.
  std::unique_ptr<MemoryLease> lease;  // Set while its task may read.

 private:
  std::shared_ptr<Served> self() {
    return std::static_pointer_cast<Served>(shared_from_this());
  }

  // Runs on any thread. A delivery on MPI's thread waits for its turn too: sent
  // at once, it made all-reduces of 4 MiB take 1.2 times as long (2 processes,
  // 2 processors, November 2026).
  void OnAnswer(absl::Status status, const Delivery& delivery) override {
    mailbox_->Post([self = self(), status = std::move(status), delivery] {
      self->OnReported(status, delivery);
    });
  }

  void OnReported(const absl::Status& status, const Delivery& lent) {
    if (serves_ == nullptr) {
      if (status.ok()) lent.Release(stopped);
      return;
    }
    delivery = lent;
    is_reported = true;
    if (!status.ok()) stopped.Update(status);
    is_delivered = status.ok();
    serves_->Begin(self());
  }

  MpiServes* serves_;  // Null: forgotten.
  const std::shared_ptr<MpiMailbox> mailbox_;
};

MpiServes::MpiServes(Options options) : options_(std::move(options)) {}

MpiServes::~MpiServes() = default;

void MpiServes::OnPull(const ControlCaller& caller,
                       const proto::MpiPull& message, TransferService* service,
                       const absl::Status& refusal) {
  const auto request = DecodePull(message);
  if (!request.ok()) {
    return Refuse(caller.task, message.id(), request.status());
  }
  if (request->payload_tag > options_.runtime->max_tag()) {
    return Refuse(caller.task, message.id(),
                  absl::InvalidArgumentError(
                      absl::StrCat("pull.payload_tag is ", request->payload_tag,
                                   ", more than MPI has")));
  }
  if (service == nullptr) return Refuse(caller.task, message.id(), refusal);
  const auto served =
      std::make_shared<Served>(this, caller, message.id(), *request, service);
  if (!served_.emplace(std::pair(caller.task, message.id()), served).second) {
    return;
  }
  service->Serve(served);
}

void MpiServes::Begin(const std::shared_ptr<Served>& served) {
  const size_t num_bytes = served->recv.num_bytes;
  if (served->is_delivered && served->delivery.bytes.size() != num_bytes) {
    served->stopped.Update(absl::InternalError(
        absl::StrCat(served->delivery.bytes.size(),
                     " bytes were lent to a pull of ", num_bytes)));
  }
  if (served->payload_tag != 0) {
    SendChunks(served);
  } else if (served->stopped.ok() && served->may_read_memory) {
    return SayPlace(*served);
  } else if (served->stopped.ok()) {
    served->num_sent = num_bytes;  // Sent by End().
  }
  if (served->num_under_way == 0) End(served);
}

void MpiServes::SayPlace(Served& served) {
  served.lease = std::make_unique<MemoryLease>(*options_.random);
  const MemoryPlace place = served.lease->PlaceOf(served.delivery.bytes);
  proto::MpiMessage message;
  proto::MpiPlace& encoded = *message.mutable_place();
  encoded.set_id(served.id);
  encoded.set_address(place.address);
  encoded.set_num_bytes(place.num_bytes);
  encoded.set_lease_address(place.lease_address);
  encoded.set_lease(place.lease);
  options_.send(served.task, std::move(message));
}

void MpiServes::SendChunks(const std::shared_ptr<Served>& served) {
  const auto bytes = served->delivery.bytes;
  bool has_begun = false;
  while (served->stopped.ok() && served->num_sent < bytes.size() &&
         served->num_under_way < static_cast<int>(kChunksAtATime)) {
    const auto chunk =
        bytes.subspan(served->num_sent,
                      std::min(kChunkBytes, bytes.size() - served->num_sent));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(chunk.data(), static_cast<int>(chunk.size()), MPI_BYTE,
              served->task, served->payload_tag, options_.runtime->payloads(),
              &request);
    served->num_sent += chunk.size();
    ++served->num_under_way;
    has_begun = true;
    ++num_sending_;
    options_.runtime->Await(
        request,
        [this, served](const MPI_Status& /*status*/) { OnChunkSent(served); });
  }
  if (has_begun) options_.runtime->Ring(served->task);
}

void MpiServes::OnChunkSent(const std::shared_ptr<Served>& served) {
  --num_sending_;
  --served->num_under_way;
  SendChunks(served);
  if (served->num_under_way == 0) End(served);
}

void MpiServes::OnCancelPull(int task, const proto::MpiCancelPull& message) {
  const std::shared_ptr<Served> served = Find(task, message.id());
  if (served != nullptr) Stop(served, DecodeError(message.reason()));
}

void MpiServes::OnRead(int task, const proto::MpiRead& message) {
  const std::shared_ptr<Served> served = Find(task, message.id());
  if (served == nullptr || served->lease == nullptr) return;
  served->num_sent = served->delivery.bytes.size();
  served->is_said = true;
  End(served);
}

void MpiServes::OnSendRest(int task, const proto::MpiSendRest& message) {
  const std::shared_ptr<Served> served = Find(task, message.id());
  if (served == nullptr || served->lease == nullptr) return;
  const bool has_tag = message.payload_tag() > 0 &&
                       message.payload_tag() <= options_.runtime->max_tag();
  if (!has_tag || message.num_read() >= served->delivery.bytes.size()) {
    return Stop(served,
                absl::InvalidArgumentError(absl::StrCat(
                    "send_rest.num_read is ", message.num_read(), " of ",
                    served->delivery.bytes.size(), " bytes, its payload_tag ",
                    message.payload_tag())));
  }
  served->lease->Clear();
  served->lease = nullptr;
  served->payload_tag = message.payload_tag();
  served->num_sent = message.num_read();
  SendChunks(served);
}

std::shared_ptr<MpiServes::Served> MpiServes::Find(int task,
                                                   uint64_t id) const {
  const auto it = served_.find({task, id});
  return it == served_.end() ? nullptr : it->second;
}

// Stops a pull. Withdraws it if it waits; chunks that MPI has end by
// themselves.
void MpiServes::Stop(const std::shared_ptr<Served>& served,
                     const absl::Status& reason) {
  if (!served->stopped.ok()) return;  // The service may be gone by now.
  served->stopped = reason;
  if (served->lease != nullptr) return End(served);
  if (served->is_reported) return;
  served->service->Withdraw(served, reason);
}

void MpiServes::StopEach(absl::FunctionRef<bool(const Served&)> chosen,
                         const absl::Status& reason) {
  std::vector<std::shared_ptr<Served>> all;
  for (const auto& [key, served] : served_) {
    if (chosen(*served)) all.push_back(served);
  }
  for (const auto& served : all) Stop(served, reason);
}

void MpiServes::StopAllOf(int task, const absl::Status& reason) {
  StopEach([task](const Served& served) { return served.task == task; },
           reason);
}

void MpiServes::Cancel(const TransferChannel::Choice& choice,
                       const absl::Status& reason) {
  StopEach([&](const Served& served) { return choice(served.key); }, reason);
}

void MpiServes::ForgetUnreported() {
  absl::erase_if(served_, [](const auto& entry) {
    Served& served = *entry.second;
    if (served.is_reported) return false;
    served.Forget();
    return true;
  });
}

void MpiServes::SayWhatComes() {
  for (const auto& [key, served] : served_) SayEnd(*served);
}

bool MpiServes::IsHeldBy(int task) const {
  return absl::c_any_of(served_, [task](const auto& entry) {
    const Served& served = *entry.second;
    return served.task == task && served.num_under_way > 0 &&
           !served.stopped.ok();
  });
}

void MpiServes::Refuse(int task, uint64_t id, const absl::Status& why) {
  proto::MpiMessage message;
  message.mutable_pulled()->set_id(id);
  *message.mutable_pulled()->mutable_error() = EncodeError(why);
  options_.send(task, std::move(message));
}

// Reports the end: MPI gets no more chunks of it.
void MpiServes::SayEnd(Served& served) {
  if (std::exchange(served.is_said, true)) return;
  proto::MpiMessage message;
  proto::MpiPulled& pulled = *message.mutable_pulled();
  pulled.set_id(served.id);
  if (!served.is_whole()) *pulled.mutable_error() = EncodeError(served.stopped);
  if (served.payload_tag != 0) {
    pulled.set_num_sent(served.num_sent);
  } else if (served.is_whole()) {
    pulled.set_payload(served.delivery.bytes.data(), served.num_sent);
  }
  options_.send(served.task, std::move(message));
}

// Ends the pull: all chunks are sent, or no more will be.
void MpiServes::End(const std::shared_ptr<Served>& served) {
  if (served_.erase({served->task, served->id}) == 0) return;
  SayEnd(*served);
  if (served->lease != nullptr) served->lease->Clear();
  if (served->is_delivered) {
    served->delivery.Release(served->is_whole() ? absl::OkStatus()
                                                : served->stopped);
  }
}

}  // namespace tutti
