#ifndef TUTTI_SCHEDULE_CHUNK_MAP_H_
#define TUTTI_SCHEDULE_CHUNK_MAP_H_

#include <cstdint>
#include <vector>

#include "framework/params.h"
#include "schedule/schedule.h"

namespace tutti {

// Elements [begin, begin + size) of a buffer.
struct Range {
  int64_t begin = 0;
  int64_t size = 0;
  friend bool operator==(Range, Range) = default;
};

// Part `index` of [0, num_elements) cut into `num_parts` ranges, in order,
// whose sizes differ by at most one. REQUIRES: 0 <= index < num_parts.
Range Cut(int64_t num_elements, int num_parts, int index);

// Which elements of one member's buffers the chunks of a schedule are. n is the
// size of the group.
//
//  - all_reduce, broadcast, reduce, permute: the whole buffer is cut into
//    num_chunks chunks; the input and the output have all of them.
//  - all_gather, gather: chunk b * pieces + p is piece p of rank b's block,
//  with
//    num_chunks = n * pieces. The input has the chunks of the own block, the
//    output all of them.
//  - reduce_scatter, scatter: the same the other way round.
//  - all_to_all: input chunk j goes to rank j, output chunk i came from rank i.
//  - barrier: chunk 0 is a token of one byte.
//
// A chunk of scratch has the size of that chunk in the input, or where the
// input lacks it, in the output. Immutable.
class ChunkMap {
 public:
  explicit ChunkMap(const CollectiveParams& params);

  // What the member has in `space`: "has" is false where the collective gives
  // the member no such chunk (see above), or the slot is out of range.
  bool Has(const Slot& slot, int num_chunks) const;

  // REQUIRES: Has(slot). `begin` is 0 for scratch.
  Range RangeOf(const Slot& slot, int num_chunks) const;

  // Whether a schedule of this collective can have so many chunks.
  bool Allows(int num_chunks) const;

 private:
  // How one of the member's buffers is cut.
  enum class Cutting : uint8_t {
    kNone,       // The member has no such buffer.
    kWhole,      // One piece of all elements.
    kAllBlocks,  // A block for each rank.
    kOwnBlock,   // The block of this rank.
    kToken,      // One byte.
  };
  struct Buffer {
    Cutting cutting = Cutting::kNone;
    int64_t num_elements = 0;           // kWhole.
    int64_t block_elements = 0;         // Where blocks are equal.
    std::vector<int64_t> block_begins;  // Where not: n + 1 of them.
  };

  bool HasChunk(const Buffer& buffer, int chunk, int num_chunks) const;
  Range RangeIn(const Buffer& buffer, int chunk, int num_chunks) const;
  const Buffer& BufferOf(const Slot& slot, int num_chunks) const;
  void SetBlocks(const CollectiveParams& params);

  const int group_size_;
  const int rank_;
  bool has_blocks_ = false;
  Buffer input_;
  Buffer data_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_CHUNK_MAP_H_
