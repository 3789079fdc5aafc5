#ifndef TUTTI_SCHEDULE_SCHEDULE_H_
#define TUTTI_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace tutti {

// A schedule is what one rank does in one collective, as data: sends,
// receives, reductions and copies of chunks. It names chunks, not bytes, so one
// schedule serves every size and dtype. The same value is run by the engine,
// proved by the verifier and priced by the simulator.
//
// Memory. A collective cuts its buffers into `num_chunks` chunks (chunk_map.h
// says which bytes each is). A slot is a chunk in one of three spaces:
//  - kInput: the member's input; never written.
//  - kData: the member's output. Where a collective runs in place, kInput c and
//    kData c are the same bytes.
//  - kScratch: memory of the engine, undefined at the start; `bank` tells apart
//    several scratch copies of one chunk.
enum class Space : uint8_t { kInput, kData, kScratch };

struct Slot {
  Space space = Space::kData;
  int32_t chunk = 0;
  int32_t bank = 0;  // kScratch only.

  friend bool operator==(const Slot&, const Slot&) = default;
};

constexpr Slot Input(int chunk) { return {Space::kInput, chunk, 0}; }
constexpr Slot Data(int chunk) { return {Space::kData, chunk, 0}; }
constexpr Slot Scratch(int chunk, int bank = 0) {
  return {Space::kScratch, chunk, bank};
}

// A step of this schedule; lane < 0 means none.
struct StepRef {
  int32_t lane = -1;
  int32_t step = 0;

  bool is_set() const { return lane >= 0; }
  friend bool operator==(const StepRef&, const StepRef&) = default;
};

enum class StepKind : uint8_t {
  kSend,    // Lends `left` to `peer`; complete when the peer has read it.
  kRecv,    // Reads what `peer` lends into `into`; complete when it is there.
  kReduce,  // into = left (+) right (+) more, in this order (Fold()).
  kCopy,    // into = left.
  kWait,    // Nothing: later steps of the lane wait for `after`, too.
};

// Whether such a step has `left`; only kReduce has `right` and `more`.
constexpr bool Reads(StepKind kind) {
  return kind != StepKind::kRecv && kind != StepKind::kWait;
}

// Whether such a step has `into`.
constexpr bool Writes(StepKind kind) {
  return kind != StepKind::kSend && kind != StepKind::kWait;
}

// How many tags there are: from 0 on.
inline constexpr int32_t kNumTags = int32_t{1} << 30;

// One action of one rank. It starts when the step before it in its lane and
// `after` are complete.
//
// A send meets the receive of the peer that has the same tag; a pair of ranks
// uses a tag once in each direction. Transfers of empty chunks are skipped on
// both sides, but where each member says for itself which are empty
// (CollInstanceParams::rows_are_given).
struct Step {
  StepKind kind = StepKind::kCopy;
  // kReduce and kCopy: also apply the collective's final op to `into`.
  bool finish = false;
  Slot into;
  Slot left;
  Slot right;
  std::vector<Slot> more;  // kReduce: what comes after `right`.
  int32_t peer = -1;
  int32_t tag = 0;
  StepRef after;
};

// What the step reads, in order.
absl::InlinedVector<Slot, 2> SlotsRead(const Step& step);

// Steps in order. Lanes run concurrently.
using Lane = std::vector<Step>;

struct Schedule {
  int num_chunks = 1;
  std::vector<Lane> lanes;

  // Not empty: this is no schedule, for that reason, and the rest means
  // nothing.
  std::string problem;
};

// "data[3]", "scratch[3]", "scratch[3].1".
std::string ToString(const Slot& slot);

// "send input[0] to 3, tag 7, after 0.2".
std::string ToString(const Step& step);

// One line per step, lanes numbered.
std::string ToString(const Schedule& schedule);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SCHEDULE_H_
