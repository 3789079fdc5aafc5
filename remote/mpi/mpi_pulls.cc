#include "remote/mpi/mpi_pulls.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/control/wire_codec.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "tutti/device.h"

namespace tutti {
namespace {

// Largest number of kept buffers of whole chunks.
constexpr size_t kMostFreeBuffers = (size_t{8} << 20) / kChunkBytes;

// Smallest kept chunk. The allocator keeps the memory of smaller ones by
// itself.
constexpr size_t kMinKeptBytes = size_t{64} << 10;

}  // namespace

// Pull. Lives until it has ended and MPI writes to none of its chunks.
class MpiPulls::Pull {
 public:
  struct Chunk {
    std::shared_ptr<DeviceLanding> landing;  // Null: `bytes` is set.
    Buffer bytes;
    size_t offset = 0;
    size_t size = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    bool is_pending = true;  // MPI may write to it.
    bool has_come = false;

    std::byte* data() const {
      return landing == nullptr ? bytes.get() : landing->bytes().data();
    }
  };

  uint64_t id = 0;
  int task = 0;
  PullRequest request;
  std::atomic<bool> is_reported = false;  // OnDelivery() has run.
  bool has_ended = false;                 // The task has reported the end.

  // Number of bytes that come: fewer if the sender stops early.
  size_t end = 0;
  size_t num_posted = 0;
  size_t num_handed_on = 0;
  size_t first_index = 0;    // Index of chunks[0] among all chunks.
  std::deque<Chunk> chunks;  // In order.

  std::optional<LoanReader> reader;  // Set while its task lets it read.

  bool is_inline() const { return request.recv.num_bytes <= kMaxInlineBytes; }

  // Returns null after OnDelivery(): the receiver may be gone.
  std::shared_ptr<DeviceLanding> Land(size_t num_bytes) const {
    const RecvRequest& recv = request.recv;
    return is_reported ? nullptr : recv.receiver->Land(recv.id, num_bytes);
  }

  absl::Status HandOn(Chunk& chunk) const {
    const RecvRequest& recv = request.recv;
    if (chunk.landing != nullptr) {
      return recv.receiver->OnLanded(recv.id, chunk.offset,
                                     std::move(chunk.landing));
    }
    return recv.receiver->OnPart(recv.id, chunk.offset,
                                 {chunk.bytes.get(), chunk.size});
  }
};

MpiPulls::MpiPulls(MpiEngine* runtime, Send send)
    : runtime_(runtime),
      send_(std::move(send)),
      writes_to_devices_(runtime->is_cuda_aware()) {}

MpiPulls::~MpiPulls() = default;

int MpiPulls::TakeTag() {
  if (free_tags_.empty()) return runtime_->NewPayloadTag();
  const int tag = free_tags_.back();
  free_tags_.pop_back();
  return tag;
}

// Returns a buffer with unset bytes.
MpiPulls::Buffer MpiPulls::TakeBuffer(size_t num_bytes) {
  if (num_bytes < kMinKeptBytes) return Buffer(new std::byte[num_bytes]);
  if (free_buffers_.empty()) return Buffer(new std::byte[kChunkBytes]);
  Buffer buffer = std::move(free_buffers_.back());
  free_buffers_.pop_back();
  return buffer;
}

void MpiPulls::KeepBuffer(Buffer buffer, size_t num_bytes) {
  const bool is_whole_chunk = num_bytes >= kMinKeptBytes;
  if (is_whole_chunk && free_buffers_.size() < kMostFreeBuffers) {
    free_buffers_.push_back(std::move(buffer));
  }
}

void MpiPulls::Request(int task, const BufKey& key, const RecvRequest& recv) {
  const auto pull = std::make_shared<Pull>();
  pull->id = ++last_id_;
  pull->task = task;
  pull->request = {.key = key, .recv = recv};
  pull->end = recv.num_bytes;
  {
    MutexLock lock(&mu_);
    pulls_[pull->id] = pull;
  }
  if (!pull->is_inline()) {
    pull->request.may_read_memory =
        runtime_->memory_of(task) != nullptr && !unreadable_.contains(task);
    if (!pull->request.may_read_memory) {
      pull->request.payload_tag = TakeTag();
      PostChunks(pull);
    }
  }
  proto::MpiMessage message;
  message.mutable_pull()->set_id(pull->id);
  EncodePull(pull->request, *message.mutable_pull());
  send_(task, std::move(message));
}

void MpiPulls::PostChunks(const std::shared_ptr<Pull>& pull) {
  // Posts one chunk at a time within a host. Open MPI copies such chunks during
  // its calls, one after the other: the first should be consumed before MPI
  // copies the next.
  const size_t at_a_time =
      runtime_->shares_memory_with(pull->task) ? 1 : kChunksAtATime;
  while (pull->chunks.size() < at_a_time && pull->num_posted < pull->end) {
    const size_t index = pull->first_index + pull->chunks.size();
    Pull::Chunk& chunk = pull->chunks.emplace_back();
    chunk.offset = pull->num_posted;
    chunk.size = std::min(kChunkBytes, pull->end - pull->num_posted);
    pull->num_posted += chunk.size;
    if (writes_to_devices_) chunk.landing = pull->Land(chunk.size);
    if (chunk.landing == nullptr) chunk.bytes = TakeBuffer(chunk.size);
    MPI_Irecv(chunk.data(), static_cast<int>(chunk.size), MPI_BYTE, pull->task,
              pull->request.payload_tag, runtime_->payloads(), &chunk.request);
    ++num_receiving_;
    runtime_->Await(chunk.request,
                    [this, pull, index](const MPI_Status& status) {
                      OnChunk(pull, index, status);
                    });
  }
}

void MpiPulls::OnChunk(const std::shared_ptr<Pull>& pull, size_t index,
                       const MPI_Status& status) {
  --num_receiving_;
  Pull::Chunk& chunk = pull->chunks[index - pull->first_index];
  chunk.is_pending = false;
  int was_cancelled = 0, num_bytes = 0;
  MPI_Test_cancelled(&status, &was_cancelled);
  MPI_Get_count(&status, MPI_BYTE, &num_bytes);
  chunk.has_come = was_cancelled == 0;
  if (chunk.has_come) runtime_->Ring(pull->task);  // Its send has ended.
  if (chunk.has_come && static_cast<size_t>(num_bytes) != chunk.size) {
    GiveUp(pull, absl::InternalError(
                     absl::StrCat("task ", pull->task, " sent ", num_bytes,
                                  " bytes of a chunk of ", chunk.size)));
  }
  if (index == pull->first_index) ready_.push_back(pull);
}

// Drops chunks that come after OnDelivery().
bool MpiPulls::HandOnNext() {
  TakeBackStopped();
  if (ready_.empty()) return false;
  const std::shared_ptr<Pull> pull = std::move(ready_.front());
  ready_.pop_front();
  if (pull->reader) {
    ReadOn(pull);
  } else {
    HandOnChunk(pull);
  }
  return true;
}

void MpiPulls::HandOnChunk(const std::shared_ptr<Pull>& pull) {
  const RecvRequest& recv = pull->request.recv;
  Pull::Chunk chunk = std::move(pull->chunks.front());
  pull->chunks.pop_front();
  ++pull->first_index;
  if (chunk.has_come && !pull->is_reported) {
    const absl::Status status = pull->HandOn(chunk);
    if (!status.ok()) GiveUp(pull, status);
  }
  if (chunk.has_come) pull->num_handed_on += chunk.size;
  chunk.landing = nullptr;  // Its device may go with the receiver.
  if (chunk.bytes != nullptr) KeepBuffer(std::move(chunk.bytes), chunk.size);
  if (pull->num_handed_on == recv.num_bytes) Report(pull, absl::OkStatus());
  PostChunks(pull);
  if (!pull->chunks.empty() && !pull->chunks.front().is_pending) {
    ready_.push_back(pull);
  }
  ForgetIfOver(pull);
}

std::shared_ptr<MpiPulls::Pull> MpiPulls::Find(int task, uint64_t id) const {
  MutexLock lock(&mu_);
  const auto it = pulls_.find(id);
  const bool is_known = it != pulls_.end() && it->second->task == task;
  return is_known ? it->second : nullptr;
}

void MpiPulls::OnPlace(int task, const proto::MpiPlace& place) {
  const std::shared_ptr<Pull> pull = Find(task, place.id());
  if (pull == nullptr || pull->is_reported || pull->reader ||
      pull->request.payload_tag != 0) {
    return;
  }
  const size_t num_bytes = pull->request.recv.num_bytes;
  if (!pull->request.may_read_memory || place.num_bytes() != num_bytes) {
    return GiveUp(pull, absl::InternalError(absl::StrCat(
                            "task ", task, " has a place of ",
                            place.num_bytes(), " bytes for ", num_bytes)));
  }
  pull->reader.emplace(*runtime_->memory_of(task),
                       MemoryPlace{.address = place.address(),
                                   .num_bytes = place.num_bytes(),
                                   .lease_address = place.lease_address(),
                                   .lease = place.lease()});
  ready_.push_back(pull);
}

// Reads the next block. If the bytes have been released, waits for their task
// to report why.
void MpiPulls::ReadOn(const std::shared_ptr<Pull>& pull) {
  if (pull->is_reported) return;
  if (block_ == nullptr) block_ = std::make_unique_for_overwrite<MemoryBlock>();
  LoanReader& reader = *pull->reader;
  const size_t offset = reader.num_read();
  const RecvRequest& recv = pull->request.recv;
  const absl::Span<const std::byte> bytes = reader.ReadNext(recv.into, *block_);
  if (bytes.empty()) {
    if (!reader.WereTakenBack()) RequestRest(pull);
    return;
  }
  const absl::Status status = recv.receiver->OnPart(recv.id, offset, bytes);
  if (!status.ok()) return GiveUp(pull, status);
  if (!reader.has_all()) return ready_.push_back(pull);
  if (!reader.AreLoaned()) {
    if (reader.WereTakenBack()) return;
    return GiveUp(pull, absl::UnavailableError(
                            absl::StrCat("the memory of task ", pull->task,
                                         " cannot be read any more")));
  }
  proto::MpiMessage message;
  message.mutable_read()->set_id(pull->id);
  send_(pull->task, std::move(message));
  pull->has_ended = true;
  Report(pull, absl::OkStatus());
  ForgetIfOver(pull);
}

void MpiPulls::RequestRest(const std::shared_ptr<Pull>& pull) {
  unreadable_.insert(pull->task);
  pull->num_posted = pull->num_handed_on = pull->reader->num_read();
  pull->reader.reset();
  pull->request.payload_tag = TakeTag();
  PostChunks(pull);
  proto::MpiMessage message;
  proto::MpiSendRest& rest = *message.mutable_send_rest();
  rest.set_id(pull->id);
  rest.set_num_read(pull->num_handed_on);
  rest.set_payload_tag(pull->request.payload_tag);
  send_(pull->task, std::move(message));
}

void MpiPulls::OnPulled(int task, const proto::MpiPulled& pulled) {
  const std::shared_ptr<Pull> pull = Find(task, pulled.id());
  if (pull == nullptr) return;
  if (std::exchange(pull->has_ended, true)) return;
  const RecvRequest& recv = pull->request.recv;
  const size_t num_sent =
      pull->is_inline() ? pulled.payload().size() : pulled.num_sent();
  const bool was_to_be_read =
      pull->request.may_read_memory && pull->request.payload_tag == 0;
  if (pulled.has_error()) {
    Report(pull, DecodeError(pulled.error()));
  } else if (was_to_be_read) {
    Report(pull, absl::InternalError(absl::StrCat(
                     "task ", task, " ended what this task was to read")));
  } else if (num_sent != recv.num_bytes) {
    Report(pull,
           absl::InternalError(absl::StrCat("task ", task, " sent ", num_sent,
                                            " bytes of ", recv.num_bytes)));
  } else if (pull->is_inline() && !pull->is_reported) {
    const auto* const bytes =
        reinterpret_cast<const std::byte*>(pulled.payload().data());
    Report(pull, num_sent == 0
                     ? absl::OkStatus()
                     : recv.receiver->OnPart(recv.id, 0, {bytes, num_sent}));
  }
  StopAt(pull, num_sent);
  ForgetIfOver(pull);
}

void MpiPulls::Cancel(const TransferChannel::Choice& choice,
                      const absl::Status& reason) {
  std::vector<std::shared_ptr<Pull>> chosen;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, pull] : pulls_) {
      if (choice(pull->request.key)) chosen.push_back(pull);
    }
  }
  for (const auto& pull : chosen) GiveUp(pull, reason);
}

std::vector<BufKey> MpiPulls::UnderWay(
    const TransferChannel::Choice& choice) const {
  std::vector<BufKey> keys;
  MutexLock lock(&mu_);
  for (const auto& [id, pull] : pulls_) {
    const BufKey& key = pull->request.key;
    if (!pull->is_reported && choice(key)) keys.push_back(key);
  }
  return keys;
}

bool MpiPulls::empty() const {
  MutexLock lock(&mu_);
  return pulls_.empty();
}

void MpiPulls::GiveUp(const std::shared_ptr<Pull>& pull,
                      const absl::Status& reason) {
  if (pull->is_reported) return;
  proto::MpiMessage message;
  message.mutable_cancel_pull()->set_id(pull->id);
  *message.mutable_cancel_pull()->mutable_reason() = EncodeError(reason);
  send_(pull->task, std::move(message));
  Report(pull, reason);
}

// Ends the pull at `num_bytes`: no later bytes come.
void MpiPulls::StopAt(const std::shared_ptr<Pull>& pull, size_t num_bytes) {
  if (num_bytes >= pull->end) return;
  pull->end = num_bytes;
  stopped_.push_back(pull);
}

// Cancels receives of stopped pulls. REQUIRES: OnChunk() has run for all ended
// receives; MPI does not know those any longer.
void MpiPulls::TakeBackStopped() {
  for (const auto& pull : std::exchange(stopped_, {})) {
    for (Pull::Chunk& chunk : pull->chunks) {
      if (chunk.is_pending && chunk.offset >= pull->end) {
        MPI_Cancel(&chunk.request);
      }
    }
  }
}

void MpiPulls::Report(const std::shared_ptr<Pull>& pull, absl::Status status) {
  if (pull->is_reported.exchange(true)) return;
  const RecvRequest& recv = pull->request.recv;
  recv.receiver->OnDelivery(recv.id, std::move(status), {});
}

void MpiPulls::ForgetIfOver(const std::shared_ptr<Pull>& pull) {
  const bool is_over =
      pull->is_reported && pull->has_ended && pull->chunks.empty();
  if (!is_over) return;
  {
    MutexLock lock(&mu_);
    if (pulls_.erase(pull->id) == 0) return;
  }
  const int tag = pull->request.payload_tag;
  if (tag != 0) free_tags_.push_back(tag);
}

std::vector<std::shared_ptr<MpiPulls::Pull>> MpiPulls::PullsFrom(
    int task) const {
  std::vector<std::shared_ptr<Pull>> pulls;
  MutexLock lock(&mu_);
  for (const auto& [id, pull] : pulls_) {
    if (pull->task == task) pulls.push_back(pull);
  }
  return pulls;
}

// Ends the pulls from a task that is not waited for.
void MpiPulls::CancelAllOf(int task, const absl::Status& reason) {
  for (const auto& pull : PullsFrom(task)) GiveUp(pull, reason);
}

void MpiPulls::OnGoodbye(int task, const absl::Status& reason) {
  for (const auto& pull : PullsFrom(task)) {
    if (std::exchange(pull->has_ended, true)) continue;
    Report(pull, reason);
    StopAt(pull, /*num_bytes=*/0);
    ForgetIfOver(pull);
  }
}

}  // namespace tutti
