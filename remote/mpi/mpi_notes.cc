#include "remote/mpi/mpi_notes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tutti {
namespace {

// So that notes do not keep the bytes of tensors waiting.
constexpr int kMostAtATime = 64;

// In one message. Between processes of a host two messages of so many bytes
// took Open MPI 4.1.4 less time than one of twice as many.
constexpr size_t kMostPieceBytes = size_t{2} << 10;

// What is sent before that which a note carries.
struct Header {
  uint64_t kind = 0;
  ExecKey key;
  uint64_t is_in_place = 0;
  uint64_t num_carried = 0;
};
static_assert(std::is_trivially_copyable_v<Header>);

template <typename T>
absl::Span<const std::byte> BytesOf(const T& of, size_t num_bytes) {
  return {reinterpret_cast<const std::byte*>(&of), num_bytes};
}

}  // namespace

MpiNotes::MpiNotes(MpiRuntime* runtime)
    : runtime_(runtime),
      tag_(runtime->NewMessageTag()),
      incoming_(sizeof(Header) + kMostPieceBytes) {}

void MpiNotes::Open() {
  MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE,
            MPI_ANY_SOURCE, tag_, runtime_->messages(), &receive_);
}

void MpiNotes::Close() {
  if (receive_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&receive_);
  MPI_Wait(&receive_, MPI_STATUS_IGNORE);
}

// Those of one sender come in order.
void MpiNotes::Send(int task, const MpiNote& note) {
  const Header header = {.kind = static_cast<uint64_t>(note.kind),
                         .key = note.key,
                         .is_in_place = note.is_in_place ? 1U : 0U,
                         .num_carried = note.carried.size()};
  auto head = BytesOf(header, sizeof(header));
  auto left = BytesOf(note.carried[0], note.carried.size());
  do {
    const auto piece = left.subspan(0, kMostPieceBytes);
    SendBytes(task, head, piece);
    head = {};
    left.remove_prefix(piece.size());
  } while (!left.empty());
  runtime_->Ring(task);
}

void MpiNotes::SendBytes(int task, absl::Span<const std::byte> head,
                         absl::Span<const std::byte> tail) {
  outgoing_.assign(head.begin(), head.end());
  outgoing_.insert(outgoing_.end(), tail.begin(), tail.end());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(outgoing_.data(), static_cast<int>(outgoing_.size()), MPI_BYTE,
            task, tag_, runtime_->messages(), &request);
  int has_ended = 0;
  MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE);
  if (has_ended != 0) return;
  sending_.Add(request, [kept = std::exchange(outgoing_, {})](
                            const MPI_Status& /*status*/) {});
}

bool MpiNotes::Receive(
    const std::function<void(int task, const MpiNote&)>& on_note) {
  for (int i = 0; i < kMostAtATime; ++i) {
    if (receive_ == MPI_REQUEST_NULL) return i > 0;
    int has_come = 0;
    MPI_Status status;
    MPI_Test(&receive_, &has_come, &status);
    if (has_come == 0) return i > 0;
    int num_bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &num_bytes);
    const auto note =
        Take(status.MPI_SOURCE,
             BytesOf(incoming_[0], static_cast<size_t>(num_bytes)));
    Open();
    if (note.has_value()) on_note(status.MPI_SOURCE, *note);
  }
  return true;
}

std::optional<MpiNote> MpiNotes::Take(int task,
                                      absl::Span<const std::byte> message) {
  const auto found = arriving_.find(task);
  Arriving arriving;
  if (found != arriving_.end()) {
    arriving = std::move(found->second);
    arriving_.erase(found);
  } else {
    Header header;
    if (message.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, message.data(), sizeof(header));
    message.remove_prefix(sizeof(header));
    arriving = {.note = {.kind = static_cast<MpiNote::Kind>(header.kind),
                         .key = header.key,
                         .is_in_place = header.is_in_place != 0},
                .num_bytes = header.num_carried};
  }
  std::string& carried = arriving.note.carried;
  carried.append(reinterpret_cast<const char*>(message.data()), message.size());
  if (carried.size() >= arriving.num_bytes) return std::move(arriving.note);
  arriving_[task] = std::move(arriving);
  return std::nullopt;
}

}  // namespace tutti
