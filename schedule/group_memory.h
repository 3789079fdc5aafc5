#ifndef TUTTI_SCHEDULE_GROUP_MEMORY_H_
#define TUTTI_SCHEDULE_GROUP_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {

// Which slots the members of one collective have, which of them are the same
// bytes, and which are surely of the same size. A value: knows chunks, not
// bytes (chunk_map.h does).
struct GroupMemory {
  CollectiveType type = CollectiveType::kAllReduce;
  int num_ranks = 1;
  int root = 0;  // Where HasRoot(type).
  int num_chunks = 1;
  bool uneven = false;         // Members' contributions may differ in size.
  std::vector<bool> in_place;  // One for each rank.

  // Errors: INVALID_ARGUMENT if `num_chunks` cannot be for this collective.
  absl::Status CheckNumChunks() const;

  // Blocks have this many chunks each, where the buffer is one block per rank.
  int pieces() const { return num_chunks / num_ranks; }

  // REQUIRES of all below: 0 <= rank < num_ranks, and CheckNumChunks() is OK.
  bool InputHas(int rank, int chunk) const;
  bool OutputHas(int rank, int chunk) const;
  bool Has(int rank, const Slot& slot) const;

  // One name for all slots of `rank` that are the same bytes as `slot`.
  Slot Canonical(int rank, const Slot& slot) const;

  // Slots of one class, on any ranks, have the same size. Slots of different
  // classes may differ: one may be empty while the other is not.
  int64_t SizeClass(int rank, const Slot& slot) const;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_GROUP_MEMORY_H_
