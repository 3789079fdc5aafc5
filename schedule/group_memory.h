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
  bool InputHas(int rank, int chunk) const;
  bool OutputHas(int rank, int chunk) const;
  bool Has(int rank, const Slot& slot) const;

  // Returns one name for all slots of `rank` with the same bytes as `slot`.
  Slot Canonical(int rank, const Slot& slot) const;

  // Slots of one class have the same size, on any ranks. Slots of different
  // classes may differ: one may be empty while the other is not.
  int64_t SizeClass(int rank, const Slot& slot) const;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_GROUP_MEMORY_H_
