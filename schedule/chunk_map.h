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
  // REQUIRES: GroupMemory::CheckNumChunks() is OK.
  ChunkMap(const CollectiveParams& params, int num_chunks);

  // False where the collective gives the member no such chunk (see above) and
  // where there is none of that number.
  bool Has(const Slot& slot) const;

  // REQUIRES: Has(slot). `begin` is 0 for scratch.
  Range RangeOf(const Slot& slot) const;

 private:
  // Equal or nearly equal parts of so many elements.
  struct Cutter {
    int64_t small = 0;
    int64_t num_large = 0;  // Parts that have one element more.
    Range At(int index) const;
  };

  // One of the member's buffers.
  struct Buffer {
    // The chunks it has: [first, first + count).
    int first_chunk = 0;
    int num_chunks = 0;

    // Where blocks are equal, or all is one block: how a block is cut.
    Cutter pieces;
    int64_t block_elements = 0;

    // Where blocks differ: n + 1 of them.
    std::vector<int64_t> block_begins;

    bool Has(int chunk) const {
      return chunk >= first_chunk && chunk < first_chunk + num_chunks;
    }
  };

  static Cutter MakeCutter(int64_t num_elements, int num_parts);
  friend Range Cut(int64_t num_elements, int num_parts, int index);

  void SetWhole(const CollectiveParams& params);
  void SetBlocks(const CollectiveParams& params);
  Buffer MakeBlocks(std::vector<int64_t> begins, bool only_own) const;
  Range RangeIn(const Buffer& buffer, int chunk) const;

  const int group_size_;
  const int rank_;
  const int num_chunks_;
  int pieces_per_block_ = 1;
  Buffer input_;
  Buffer data_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_CHUNK_MAP_H_
