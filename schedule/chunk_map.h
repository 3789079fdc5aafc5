#ifndef TUTTI_SCHEDULE_CHUNK_MAP_H_
#define TUTTI_SCHEDULE_CHUNK_MAP_H_

#include <cstdint>
#include <vector>

#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Elements [begin, begin + size) of a buffer.
struct Range {
  int64_t begin = 0;
  int64_t size = 0;
  friend bool operator==(Range, Range) = default;
};

// Returns part `index` of [0, num_elements), cut into `num_parts` ranges.
// Ranges are in order and their sizes differ by at most one. REQUIRES: 0 <=
// index < num_parts.
Range Cut(int64_t num_elements, int num_parts, int index);

// Maps the chunks of a schedule to elements of one member's buffers. n is the
// size of the group.
//
// - all_reduce, broadcast, reduce, permute: the whole buffer is cut into
//   num_chunks chunks. The input and the output have all chunks.
// - all_gather, gather: chunk b * pieces + p is piece p of rank b's block;
//   num_chunks = n * pieces. The input has the chunks of the rank's own block,
//   the output has all chunks.
// - reduce_scatter, scatter: numbered like all_gather. The input has all
//   chunks, the output has the chunks of the rank's own block.
// - all_to_all: input chunk j goes to rank j, output chunk i comes from rank i.
// - barrier: chunk 0 is a token of one byte.
//
// A scratch chunk has the size of the same chunk in the input; if the input
// lacks the chunk, in the output. Immutable.
class ChunkMap {
 public:
  // REQUIRES: GroupMemory::CheckNumChunks() is OK.
  ChunkMap(const CollectiveParams& params, int num_chunks);

  // Consecutive chunks are consecutive elements. `begin` is 0 for scratch.
  // REQUIRES: GroupMemory::Has(slot).
  Range RangeOf(const Slot& slot) const;

 private:
  // Cuts a number of elements into parts whose sizes differ by at most one.
  struct Cutter {
    int64_t small = 0;
    int64_t num_large = 0;  // Parts with one element more.
    Range At(int index) const;
  };

  // A buffer of the member.
  struct Buffer {
    // Chunks in the buffer: [first_chunk, first_chunk + num_chunks).
    int first_chunk = 0;
    int num_chunks = 0;

    // Cut of one block, if all blocks are equal or the buffer is one block.
    Cutter pieces;
    int64_t block_elements = 0;

    // Begins of the n blocks and the end of the last, if blocks differ.
    std::vector<int64_t> block_begins;

    bool Has(const Slot& slot) const {
      return slot.chunk >= first_chunk &&
             slot.chunk + slot.num_chunks <= first_chunk + num_chunks;
    }
  };

  static Cutter MakeCutter(int64_t num_elements, int num_parts);
  friend Range Cut(int64_t num_elements, int num_parts, int index);

  void SetWhole(const CollectiveParams& params);
  void SetBlocks(const CollectiveParams& params);
  Buffer MakeBlocks(std::vector<int64_t> begins, bool only_own,
                    int64_t block_elements) const;
  inline Range RangeIn(const Buffer& buffer, int chunk) const;

  const int group_size_;
  const int rank_;
  const int num_chunks_;
  int pieces_per_block_ = 1;
  Buffer input_;
  Buffer data_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_CHUNK_MAP_H_
