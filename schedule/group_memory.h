#ifndef TUTTI_SCHEDULE_GROUP_MEMORY_H_
#define TUTTI_SCHEDULE_GROUP_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {

// Slots of the members of one collective: which slots exist, which are the same
// bytes, and which surely have the same size. A value. Knows chunks;
// chunk_map.h knows bytes.
struct GroupMemory {
  CollectiveType type = CollectiveType::kAllReduce;
  int num_ranks = 1;
  int root = 0;  // Used if HasRoot(type).
  int num_chunks = 1;
  bool uneven = false;         // Members' contributions may differ in size.
  std::vector<bool> in_place;  // Each rank has an entry.

  // Errors: INVALID_ARGUMENT if the collective cannot have `num_chunks` chunks.
  absl::Status CheckNumChunks() const;

  // Chunks per block, if the buffer is one block per rank.
  int pieces() const { return num_chunks / num_ranks; }

  // REQUIRES of all below: 0 <= rank < num_ranks, and CheckNumChunks() is OK.
  // A range exists if all its chunks do, in one buffer.
  bool InputHas(int rank, int chunk, int count = 1) const;
  bool OutputHas(int rank, int chunk, int count = 1) const;
  bool Has(int rank, const Slot& slot) const;

  // Returns one name for all slots of `rank` with the same bytes as `slot`.
  Slot Canonical(int rank, const Slot& slot) const;

  // Chunks of one class have the same size, on any ranks. Chunks of different
  // classes may differ: one may be empty while the other is not.
  int64_t SizeClass(int rank, const Slot& chunk) const;

  // Returns true if the slots have equally many chunks, of the same classes.
  bool HaveOneSize(int rank, const Slot& slot, int other_rank,
                   const Slot& other) const;

  // Returns true if the slots share bytes, but are not the same bytes.
  // REQUIRES: equally many chunks.
  bool OverlapInPart(int rank, const Slot& slot, const Slot& other) const;

 private:
  bool AreChunks(int chunk, int count) const;
  bool AreOf(int rank, int chunk, int count) const;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_GROUP_MEMORY_H_
