#ifndef TUTTI_SCHEDULE_COMPOSITION_H_
#define TUTTI_SCHEDULE_COMPOSITION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/group_memory.h"
#include "tutti/schedule.h"

namespace tutti {

// Makes what one rank does in a large collective out of what it does in smaller
// ones, the parts, which follow each other chunk by chunk: a part's input is
// what the parts before it have made of the chunk, and it starts on a chunk as
// soon as that is there. So an all-reduce among the devices of two tasks is
//
//   reduce-scatter     all-reduce          all-gather
//   in each task       of each chunk       in each task
//
//   0 --+-- 1          0          1        0 --+-- 1
//                      |          |
//   2 --+-- 3          2          3        2 --+-- 3
//
// A part is a valid schedule of a collective of its own, as the plan functions
// of algorithms make it. Where one has steps that cannot be, the whole has that
// for its `problem`; other mistakes are those of the whole. Chunks that are in
// the output of the whole are made there, others in scratch memory.
class Composition {
 public:
  struct Part {
    // What this rank does. Of the steps that write a chunk of its output, the
    // last one to run stands last: in the last of their lanes. No lanes: the
    // rank takes no part.
    Schedule schedule;

    std::vector<int> ranks;   // ranks[i]: what rank i of the part is in all.
    std::vector<int> chunks;  // The same of its chunks.

    // Tag t of the part is first_tag + t * tag_stride more than all `num_tags`
    // before it. No two messages from one rank to another may have the same.
    // Where parts follow each other, `num_tags` is more than any tag of the
    // part, on any rank; or 0 where no two ranks that meet in it meet in parts
    // after it, or the tags of these lie between those of this one.
    int num_tags = 0;
    int first_tag = 0;
    int tag_stride = 1;

    // The part completes what it reduces: its final ops are those of the whole.
    bool finishes = false;

    // What it makes is there when all that the rank does in it has ended.
    // Needed where a later part makes the chunk anew without a look at it.
    bool ends_at_once = false;
  };

  // `memory` is that of the whole; what it says of `in_place` does not matter
  // here, but to the plans of the parts.
  Composition(GroupMemory memory, int rank);

  // All ranks add parts in the same order, with the same numbers of tags, those
  // without them too.
  void Add(const Part& part);

  // A part whose input this is starts in place: the chunk is in the output.
  bool IsInOutput(int chunk) const {
    return values_[chunk].slot.space == Space::kData;
  }

  // The finished schedule. Call once, last.
  Schedule Build() { return std::move(schedule_); }

 private:
  class Adding;

  // What the parts so far have made of a chunk.
  struct Value {
    Slot slot;
    StepRef made;  // Not set: it is there from the start.
  };

  const GroupMemory memory_;
  const int rank_;
  Schedule schedule_;
  std::vector<Value> values_;  // By chunk.
  int num_tags_ = 0;
  int num_banks_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_COMPOSITION_H_
