#include "remote/mpi/messages/mpi_messages.h"

#include <utility>

#include "absl/types/span.h"
#include "remote/mpi/messages/mpi_pieces.h"

namespace tutti {
namespace {

// Number of posted receives. Most are for pieces that come at once. Some pieces
// come slowly, as between hosts: these take one receive for each sender.
constexpr size_t kNumSlots = 16;

}  // namespace

MpiMessages::MpiMessages(MpiEngine* runtime, size_t most_bytes)
    : runtime_(runtime),
      tag_(runtime->NewMessageTag()),
      stream_(runtime, tag_, most_bytes) {}

void MpiMessages::Open(OnMessage on_message) {
  on_message_ = std::move(on_message);
  is_open_ = true;
  slots_.resize(kNumSlots);
  for (Slot& slot : slots_) {
    slot.bytes.resize(MostPieceBytes());
    Post(slot);
  }
}

void MpiMessages::Close() {
  is_open_ = false;
  for (Slot& slot : slots_) {
    if (slot.request != MPI_REQUEST_NULL) MPI_Cancel(&slot.request);
  }
}

void MpiMessages::Post(Slot& slot) {
  MPI_Irecv(slot.bytes.data(), static_cast<int>(slot.bytes.size()), MPI_BYTE,
            MPI_ANY_SOURCE, tag_, runtime_->messages(), &slot.request);
  runtime_->Await(slot.request, [this, &slot](const MPI_Status& status) {
    OnPiece(slot, status);
  });
}

void MpiMessages::OnPiece(Slot& slot, const MPI_Status& status) {
  slot.request = MPI_REQUEST_NULL;
  if (!is_open_) return;
  int num_bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &num_bytes);
  stream_.OnPiece(status.MPI_SOURCE,
                  absl::MakeConstSpan(slot.bytes).first(num_bytes),
                  on_message_);
  Post(slot);
}

}  // namespace tutti
