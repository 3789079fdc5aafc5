#ifndef TUTTI_REMOTE_MPI_MPI_PULLS_H_
#define TUTTI_REMOTE_MPI_MPI_PULLS_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "proto/mpi.pb.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/peer_memory.h"
#include "tutti/peer_access.h"

namespace tutti {

// What a task pulls from others: the receiving side of mpi_wire.h. For MPI's
// thread, on which borrowers are called; lives until that has ended. Chunks
// come to the borrower's landings where MPI is CUDA-aware and there are some.
// Other memory for chunks is kept, up to 8 MiB: the allocator would give it
// back to the machine after each pull.
class MpiPulls {
 public:
  using Send = std::function<void(int task, proto::MpiMessage message)>;

  // `runtime` has been started, and outlives this.
  MpiPulls(MpiEngine* runtime, Send send);
  ~MpiPulls();

  void Request(int task, const BufKey& key, const Ask& ask);
  // `borrower` may be gone: then nothing happens.
  void Cancel(const BufKey& key, const Borrower* borrower,
              const absl::Status& reason);
  void OnPulled(int task, const proto::MpiPulled& pulled);
  void OnPlace(int task, const proto::MpiPlace& place);

  // Tells the borrowers of what is pulled from `task`, and cancels it there.
  void CancelAllOf(int task, const absl::Status& reason);

  // The task has said goodbye: what it has not ended it has not heard of.
  void OnGoodbye(int task, const absl::Status& reason);

  // Takes back what was posted for bytes that do not come, and hands the next
  // chunk that has come, or that can be read, on to its borrower, which copies
  // or reduces it. False if there is none.
  bool HandOnNext();

  // Whether receives are posted.
  bool is_receiving() const { return num_receiving_ > 0; }

  // Whether all pulls have ended on both sides.
  bool empty() const { return pulls_.empty(); }

 private:
  class Pull;
  using Buffer = std::unique_ptr<std::byte[]>;

  std::shared_ptr<Pull> Find(int task, uint64_t id) const;
  int TakeTag();
  Buffer TakeBuffer(size_t num_bytes);
  void KeepBuffer(Buffer buffer, size_t num_bytes);
  void PostChunks(const std::shared_ptr<Pull>& pull);
  void OnChunk(const std::shared_ptr<Pull>& pull, size_t index,
               const MPI_Status& status);
  void HandOnChunk(const std::shared_ptr<Pull>& pull);
  void ReadOn(const std::shared_ptr<Pull>& pull);
  void AskForRest(const std::shared_ptr<Pull>& pull);
  void GiveUp(const std::shared_ptr<Pull>& pull, const absl::Status& reason);
  void StopAt(const std::shared_ptr<Pull>& pull, size_t num_bytes);
  void TakeBackStopped();
  void Tell(const std::shared_ptr<Pull>& pull, absl::Status status);
  void ForgetIfOver(const std::shared_ptr<Pull>& pull);
  std::vector<std::shared_ptr<Pull>> PullsFrom(int task) const;

  MpiEngine* const runtime_;
  const Send send_;
  const bool writes_to_devices_;
  uint64_t last_id_ = 0;
  std::vector<int> free_tags_;
  std::vector<Buffer> free_buffers_;  // Of whole chunks.
  absl::flat_hash_map<uint64_t, std::shared_ptr<Pull>> pulls_;
  // Of those not told. A key may be asked for anew before who asked before is
  // told.
  absl::flat_hash_map<std::pair<BufKey, const Borrower*>, uint64_t> ids_;
  absl::flat_hash_set<int> unreadable_;         // Tasks.
  std::unique_ptr<MemoryBlock> block_;          // Of whoever reads.
  size_t num_receiving_ = 0;                    // Chunks.
  std::deque<std::shared_ptr<Pull>> ready_;     // Whose first chunk is there.
  std::vector<std::shared_ptr<Pull>> stopped_;  // Whose rest does not come.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_PULLS_H_
