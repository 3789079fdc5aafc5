#ifndef TUTTI_SCHEDULE_COMPOSITION_H_
#define TUTTI_SCHEDULE_COMPOSITION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/group_memory.h"
#include "tutti/schedule.h"

namespace tutti {

// Composes one rank's schedule of a large collective from its schedules of
// smaller collectives, the parts.
//
// Parts follow each other chunk by chunk. The input of a part is the chunk as
// earlier parts have made it. A part starts on a chunk as soon as the chunk is
// made. For example, an all-reduce among the devices of two tasks is
//
//   reduce-scatter     all-reduce          all-gather
//   in each task       of each chunk       in each task
//
//   0 --+-- 1          0          1        0 --+-- 1
//                      |          |
//   2 --+-- 3          2          3        2 --+-- 3
//
// Each part is a valid schedule of its collective, as plan functions of
// algorithms make it. If a part has an impossible step, the `problem` of the
// whole says so. Other mistakes in a part appear as mistakes of the whole.
// Chunks in the output of the whole are made there, other chunks in scratch
// memory.
class Composition {
 public:
  struct Part {
    // This rank's schedule of the part. Among the steps that write one output
    // chunk, the step that runs last stands in the last of their lanes. No
    // lanes: the rank takes no part.
    Schedule schedule;

    std::vector<int> ranks;   // Rank i is ranks[i] of the whole.
    std::vector<int> chunks;  // Chunk i is chunks[i] of the whole.

    // Ranges of chunks that are not consecutive in the whole are cut, and chunk
    // i of a message with tag t then has tag t + i. Both ends of such a message
    // name the same chunks.
    //
    // Tag t of the part becomes first_tag + t * tag_stride + `num_tags` of all
    // earlier parts. Two messages from one rank to another must not have the
    // same tag.
    //
    // If parts follow each other, `num_tags` is more than any tag of the part
    // on any rank. It may be 0 in two cases: no two ranks of this part meet in
    // a later part; or tags of later parts lie between tags of this part.
    int num_tags = 0;
    int first_tag = 0;
    int tag_stride = 1;

    // The part completes its reductions: it applies the final ops of the whole.
    bool finishes = false;

    // Results of the part count as made only after all the rank's steps in it.
    // Needed if a later part overwrites the chunk without reading it.
    bool ends_at_once = false;
  };

  // `memory` describes the whole. Its `in_place` is not used here; plans of
  // parts use it.
  Composition(GroupMemory memory, int rank);

  // Appends a part. All ranks add the same parts in the same order, with the
  // same `num_tags`; a rank outside a part adds it without lanes.
  void Add(const Part& part);

  // Returns true if the chunk is in the output now. A next part with this input
  // chunk works in place.
  bool IsInOutput(int chunk) const {
    return values_[chunk].slot.space == Space::kData;
  }

  // The finished schedule. Call once, last.
  Schedule Build() { return std::move(schedule_); }

 private:
  class Adding;

  // State of a chunk after the parts added up to now.
  struct Value {
    Slot slot;
    StepRef made;  // Not set: there from the start.
  };

  const GroupMemory memory_;
  const int rank_;
  Schedule schedule_;
  std::vector<Value> values_;  // Indexed by chunk.
  int num_tags_ = 0;
  int num_banks_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_COMPOSITION_H_
