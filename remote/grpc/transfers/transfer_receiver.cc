#include "remote/grpc/transfers/transfer_receiver.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/transfers/receive_stream.h"

namespace tutti {
namespace {

// Smallest transfer that is spread over lanes. Smaller ones share one
// connection.
constexpr size_t kMinSpreadBytes = size_t{256} << 10;

}  // namespace

TransferReceiver::TransferReceiver(const GrpcTransportOptions* options,
                                   Peers* peers)
    : options_(options), peers_(peers) {}

TransferReceiver::~TransferReceiver() = default;

absl::Status TransferReceiver::Check(int task, const RecvRequest& recv) const {
  RETURN_IF_ERROR(peers_->CheckTask(task));
  if (!IsValid(recv.dtype)) return InvalidDType(recv.dtype);
  if (recv.num_bytes % SizeOf(recv.dtype) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(recv.num_bytes, " bytes are no number of elements of ",
                   Name(recv.dtype)));
}

// Returns the lane of a key, which is always the same. A request after a
// cancellation thus arrives after it on the other side too.
int TransferReceiver::LaneOf(const BufKey& key, const RecvRequest& recv) const {
  if (options_->transfer_lanes <= 1 || recv.num_bytes < kMinSpreadBytes) {
    return 0;
  }
  return static_cast<int>(absl::HashOf(key) %
                          static_cast<size_t>(options_->transfer_lanes));
}

void TransferReceiver::Request(int task, const BufKey& key,
                               const RecvRequest& recv) {
  absl::Status refused = Check(task, recv);
  if (refused.ok() && !Take({task, LaneOf(key, recv)}, key, recv)) {
    refused = absl::CancelledError("the transport has been shut down");
  }
  if (!refused.ok()) {
    recv.receiver->OnDelivery(recv.id, std::move(refused), {});
  }
}

bool TransferReceiver::Take(const StreamKey& stream_key, const BufKey& key,
                            const RecvRequest& recv) {
  std::shared_ptr<ReceiveStream> stream;
  while (true) {
    bool is_new = false;
    {
      MutexLock lock(&mu_);
      std::shared_ptr<ReceiveStream>& current = streams_[stream_key];
      // Opens a stream: there is none, or it has ended.
      if (current == nullptr || current == stream) {
        current = in_flight_.Begin() ? Create(stream_key) : nullptr;
        is_new = true;
      }
      stream = current;
    }
    if (stream == nullptr) return false;
    if (!is_new) stream->CloseIfReplaced();
    const bool is_taken = stream->Request(key, recv);
    if (is_new) stream->Start();
    if (is_taken) return true;
  }
}

std::shared_ptr<ReceiveStream> TransferReceiver::Create(
    const StreamKey& stream_key) {
  return ReceiveStream::Create(
      options_, peers_, {.task = stream_key.first, .lane = stream_key.second},
      [this, stream_key](const ReceiveStream* ended) {
        Forget(stream_key, ended);
        in_flight_.End();
      });
}

void TransferReceiver::Cancel(const Choice& choice,
                              const absl::Status& reason) {
  for (const auto& [key, stream] : Streams()) stream->Cancel(choice, reason);
}

std::vector<BufKey> TransferReceiver::UnderWay(const Choice& choice) {
  std::vector<BufKey> keys;
  for (const auto& [key, stream] : Streams()) {
    stream->AddUnderWay(choice, keys);
  }
  return keys;
}

void TransferReceiver::Drop(const ControlCaller& process,
                            const absl::Status& reason) {
  for (const auto& [key, stream] : Streams()) {
    if (key.first == process.task &&
        stream->incarnation() == process.incarnation) {
      stream->Close(reason);
    }
  }
}

void TransferReceiver::CloseIdle() {
  for (const auto& [key, stream] : Streams()) stream->CloseIfIdle();
}

void TransferReceiver::Shutdown() {
  in_flight_.Close();
  for (const auto& [key, stream] : Streams()) {
    stream->Close(absl::CancelledError("the transport is shut down"));
  }
  in_flight_.Wait();
}

std::vector<
    std::pair<TransferReceiver::StreamKey, std::shared_ptr<ReceiveStream>>>
TransferReceiver::Streams() {
  std::vector<std::pair<StreamKey, std::shared_ptr<ReceiveStream>>> streams;
  MutexLock lock(&mu_);
  for (const auto& [key, stream] : streams_) {
    if (stream != nullptr) streams.emplace_back(key, stream);
  }
  return streams;
}

void TransferReceiver::Forget(const StreamKey& stream_key,
                              const ReceiveStream* stream) {
  MutexLock lock(&mu_);
  const auto it = streams_.find(stream_key);
  if (it != streams_.end() && it->second.get() == stream) streams_.erase(it);
}

}  // namespace tutti
