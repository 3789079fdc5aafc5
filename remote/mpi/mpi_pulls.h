#ifndef TUTTI_REMOTE_MPI_MPI_PULLS_H_
#define TUTTI_REMOTE_MPI_MPI_PULLS_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "proto/mpi.pb.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/peer_memory.h"
#include "remote/transfer_channel.h"
#include "tutti/peer_access.h"

namespace tutti {

// Pulls of a task: the receiving side of mpi_wire.h. For MPI's thread, on which
// the receivers' callbacks run; lives until that thread has ended. Chunks land
// directly in the receiver's DeviceLandings, if MPI is CUDA-aware and the
// receiver has some. Other memory for chunks is kept for later pulls, up to 8
// MiB: the allocator would return it to the system after each pull.
class MpiPulls {
 public:
  using Send = std::function<void(int task, proto::MpiMessage message)>;

  // `runtime` has been started, and outlives this object.
  MpiPulls(MpiEngine* runtime, Send send);
  ~MpiPulls();

  void Request(int task, const BufKey& key, const RecvRequest& recv);

  // Same as those of TransferChannel. UnderWay() may run on any thread.
  void Cancel(const TransferChannel::Choice& choice,
              const absl::Status& reason);
  std::vector<BufKey> UnderWay(const TransferChannel::Choice& choice) const
      ABSL_LOCKS_EXCLUDED(mu_);

  void OnPulled(int task, const proto::MpiPulled& pulled);
  void OnPlace(int task, const proto::MpiPlace& place);

  // Ends the pulls from `task` with `reason`, and cancels them there.
  void CancelAllOf(int task, const absl::Status& reason);

  // Ends the pulls that the task has not ended: it has said goodbye, and knows
  // nothing of them.
  void OnGoodbye(int task, const absl::Status& reason);

  // Takes back receives for bytes that do not come. Hands the next chunk,
  // received or readable, to its receiver, which copies or reduces it. Returns
  // false if there is no chunk.
  bool HandOnNext();

  // Returns whether receives are posted.
  bool is_receiving() const { return num_receiving_ > 0; }

  // Returns whether all pulls have ended on both sides.
  bool empty() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Pull;
  using Buffer = std::unique_ptr<std::byte[]>;

  std::shared_ptr<Pull> Find(int task, uint64_t id) const
      ABSL_LOCKS_EXCLUDED(mu_);
  int TakeTag();
  Buffer TakeBuffer(size_t num_bytes);
  void KeepBuffer(Buffer buffer, size_t num_bytes);
  void PostChunks(const std::shared_ptr<Pull>& pull);
  void OnChunk(const std::shared_ptr<Pull>& pull, size_t index,
               const MPI_Status& status);
  void HandOnChunk(const std::shared_ptr<Pull>& pull);
  void ReadOn(const std::shared_ptr<Pull>& pull);
  void RequestRest(const std::shared_ptr<Pull>& pull);
  void GiveUp(const std::shared_ptr<Pull>& pull, const absl::Status& reason);
  void StopAt(const std::shared_ptr<Pull>& pull, size_t num_bytes);
  void TakeBackStopped();
  void Report(const std::shared_ptr<Pull>& pull, absl::Status status);
  void ForgetIfOver(const std::shared_ptr<Pull>& pull);
  std::vector<std::shared_ptr<Pull>> PullsFrom(int task) const
      ABSL_LOCKS_EXCLUDED(mu_);

  MpiEngine* const runtime_;
  const Send send_;
  const bool writes_to_devices_;
  uint64_t last_id_ = 0;
  std::vector<int> free_tags_;
  std::vector<Buffer> free_buffers_;  // Hold whole chunks.

  // Lets other threads see the pulls; MPI's thread alone changes them.
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Pull>> pulls_
      ABSL_GUARDED_BY(mu_);

  absl::flat_hash_set<int> unreadable_;         // Tasks.
  std::unique_ptr<MemoryBlock> block_;          // Owned by the current reader.
  size_t num_receiving_ = 0;                    // Counts chunks.
  std::deque<std::shared_ptr<Pull>> ready_;     // First chunk is here.
  std::vector<std::shared_ptr<Pull>> stopped_;  // Rest does not come.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_PULLS_H_
