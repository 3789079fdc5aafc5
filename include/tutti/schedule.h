#ifndef TUTTI_SCHEDULE_H_
#define TUTTI_SCHEDULE_H_

// Schedules: algorithms as data. An author writes a pure function from
// layout, rank and parameters to a Schedule, and registers it by
// REGISTER_COLLECTIVE and Scheduled(). The engine runs the schedule, the
// verifier proves it and the simulator prices it. Hierarchical() makes an
// all-reduce on two levels of two registered ones.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

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

// Writes a Schedule lane by lane; each call appends one step and returns the
// reference by which later steps can wait for it.
//
//   ScheduleBuilder builder(/*num_chunks=*/1);
//   auto lane = builder.AddLane();
//   const StepRef arrived = lane.Recv(peer, tag, Data(0));
//   builder.AddLane().Send(next, tag, Data(0), arrived);
//   return builder.Build();
class ScheduleBuilder {
 public:
  // A handle on one lane; valid as long as the builder is.
  class LaneBuilder {
   public:
    StepRef Send(int peer, int tag, Slot from, StepRef after = {});
    StepRef Recv(int peer, int tag, Slot into, StepRef after = {});
    StepRef Reduce(Slot into, Slot left, Slot right, StepRef after = {});
    StepRef Copy(Slot into, Slot from, StepRef after = {});

    // As Reduce and Copy, and applies the final op to `into`.
    StepRef ReduceAndFinish(Slot into, Slot left, Slot right,
                            StepRef after = {});
    StepRef CopyAndFinish(Slot into, Slot from, StepRef after = {});

    // The same of any number of operands, at least one: Copy if it is one.
    StepRef ReduceMany(Slot into, absl::Span<const Slot> operands,
                       StepRef after = {});
    StepRef ReduceManyAndFinish(Slot into, absl::Span<const Slot> operands,
                                StepRef after = {});

    // Later steps of the lane wait for that step, too.
    StepRef Wait(StepRef after);

   private:
    friend class ScheduleBuilder;
    LaneBuilder(Schedule* schedule, int lane)
        : schedule_(schedule), lane_(lane) {}
    StepRef Append(const Step& step);

    Schedule* schedule_;
    int lane_;
  };

  explicit ScheduleBuilder(int num_chunks) {
    schedule_.num_chunks = num_chunks;
  }
  ScheduleBuilder(const ScheduleBuilder&) = delete;
  ScheduleBuilder& operator=(const ScheduleBuilder&) = delete;

  LaneBuilder AddLane();

  // The finished schedule. Call once, last.
  Schedule Build() { return std::move(schedule_); }

 private:
  Schedule schedule_;
};

// What the ranks of a group do in a collective, round by round, without saying
// with which chunks. Where a plan has steps in the square of the number of
// ranks, its outline may have far fewer: it can be simulated for groups whose
// plans nobody could write down.
//
// A round is all that has the same depth (step_depth.h): round d has the
// transfers of depth d, and the reductions and copies that then follow. Round 0
// has no transfers.
struct OutlineRound {
  // All that one rank sends another, each pair once. A message is a chunk.
  struct Transfer {
    int32_t from = 0;
    int32_t to = 0;
    int64_t chunks = 0;
    friend bool operator==(const Transfer&, const Transfer&) = default;
    friend bool operator<(const Transfer& a, const Transfer& b) {
      return std::tie(a.from, a.to) < std::tie(b.from, b.to);
    }
  };

  // What a rank does on its own, each rank once.
  struct Work {
    int32_t rank = 0;
    int64_t reduced_chunks = 0;
    int64_t copied_chunks = 0;
    friend bool operator==(const Work&, const Work&) = default;
  };

  std::vector<Transfer> transfers;
  std::vector<Work> work;

  void Clear() {
    transfers.clear();
    work.clear();
  }
};

// Immutable.
class Outline {
 public:
  struct Size {
    int num_ranks = 1;
    int num_chunks = 1;
    int num_rounds = 1;

    // Of the rank that needs most memory besides its input and output.
    int64_t scratch_chunks = 0;

    // Rank r + period does what rank r does, `period` ranks further, modulo the
    // number of ranks, which is a multiple. That number itself: no such claim.
    int period = 1;

    // In every round but round 0 each rank sends to the same one, which has no
    // other sender; and in every round all send and work as much as each other.
    bool is_ring = false;

    // At most so many ranks send or work in a round. 0: no such claim.
    int busy_ranks = 0;

    // At most so many transfers has a round. 0: no such claim.
    int64_t most_transfers = 0;

    friend bool operator==(const Size&, const Size&) = default;
  };

  explicit Outline(const Size& size) : size_(size) {}
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;
  virtual ~Outline() = default;

  const Size& size() const { return size_; }

  // Appends what ranks [first, end) send and work in a round, in the order of
  // their numbers. REQUIRES: 0 <= round < num_rounds and 0 <= first <= end <=
  // num_ranks.
  virtual void Append(int round, int first, int end,
                      OutlineRound* into) const = 0;

  // How many chunks of its output `rank` writes for the last time in a round.
  // What follows in a composition may start on them then. REQUIRES: as above.
  virtual int64_t NumResults(int round, int rank) const = 0;

 private:
  const Size size_;
};

// All that a plan may depend on. Every value is checked before a plan sees it.
struct PlanRequest {
  const GroupLayout& layout;
  CollectiveType type = CollectiveType::kAllReduce;
  int rank = 0;
  int root = 0;  // Where HasRoot(type).

  // kPermute only: what rank i has goes to rank permutation[i].
  absl::Span<const int> permutation;

  // One ring or tree per entry; never empty where the traits say
  // supports_subdivisions. An offset k >= 0 starts k devices further in each
  // task; a negative one -k goes through its devices backwards, and starts k
  // further on that way. Offsets count modulo the devices of the task.
  absl::Span<const int> subdiv_offsets;

  // Where the traits take a list of ranks: each at most once, for kAllRanks all
  // of them. Empty: the algorithm's own order.
  absl::Span<const int> rank_list;

  // kReduceScatter: blocks may differ in size, as those of an all-reduce do
  // that it is a part of. Else all are alike.
  bool blocks_differ = false;

  // This member's output is its input (where chunks have the same number).
  // Members may differ in this: it must not change what is sent or received.
  bool in_place = false;
};

// What to choose subdivisions by, where the caller gave no offsets: so many
// that bytes / (ranks * subdivisions) is at most 4 MiB, as far as the maximum
// allows.
struct SubdivisionRequest {
  const GroupLayout& layout;
  int64_t bytes = 0;  // Of the larger of one member's input and output.
  int max_subdivs_per_device = 0;  // As in CollImplDetails.

  // All members are GPUs of one process, where each step is a launch.
  bool are_launches = false;
};

// An algorithm whose steps are known before it runs.
struct Algorithm {
  ImplementationTraits traits;

  // What one rank does. Pure. Not asked, nor the others, unless CheckParts() is
  // OK.
  Schedule (*plan)(const PlanRequest& request) = nullptr;

  // The subdivision offsets to use by default. Pure. Null unless the traits say
  // supports_subdivisions.
  std::vector<int> (*subdivide)(const SubdivisionRequest& request) = nullptr;

  // As traits.cost_seconds, with so many subdivisions instead of the default
  // ones. Pure. Null: it is the same with any number.
  double (*subdivided_seconds)(const CostQuery& query,
                               int num_subdivs) = nullptr;

  // The outline of what `plan` makes, for groups that are too large to plan;
  // `rank` does not count. Pure, and needs nothing of the request later. Null,
  // or an error that says why not: only as planned. The conformance suite
  // compares the two (CheckOutline).
  absl::StatusOr<std::unique_ptr<const Outline>> (*outline)(
      const PlanRequest& request) = nullptr;
};

// The factory with which an algorithm is registered:
//   REGISTER_COLLECTIVE(RingReduce, Scheduled({.traits = ..., .plan = Plan}));
// Null, which cannot be registered, if there is no plan function.
std::shared_ptr<const CollectiveFactory> Scheduled(Algorithm algorithm);

// The algorithm behind a factory; null if it was not made by Scheduled().
const Algorithm* AlgorithmOf(const CollectiveFactory& factory);

// OK if it runs on all devices, in all groups, with all ops, and to the same
// bits for a fixed layout: what it is a part of says so of itself. Errors:
// INVALID_ARGUMENT, with the name, that says what it is not.
absl::Status CheckFitsAsPart(absl::string_view name,
                             const ImplementationTraits& traits);

// A registered name as an argument of templates.
template <size_t size>
struct ImplementationName {
  consteval ImplementationName(const char (&name)[size]) {  // NOLINT: a name.
    std::copy_n(name, size, text);
  }
  constexpr absl::string_view view() const { return {text, size - 1}; }

  char text[size];
};

// Parts of an all-reduce on two levels, by names of the global registry:
// schedules of one level that fit (CheckFitsAsPart()).
struct ReduceLevels {
  absl::string_view inside;   // Reduce-scatters, reduces or all-reduces.
  absl::string_view between;  // All-reduces.
};

// Functions of an all-reduce on two levels, as an Algorithm has them, and its
// factory. For Hierarchical(), which knows the levels.
namespace two_levels {

absl::Status CheckParts(const ReduceLevels& levels);
double Seconds(const CostQuery& query, const ReduceLevels& levels);
Schedule Plan(const PlanRequest& request, const ReduceLevels& levels);
std::vector<int> Subdivide(const SubdivisionRequest& request,
                           const ReduceLevels& levels);
absl::StatusOr<std::unique_ptr<const Outline>> MakeOutline(
    const PlanRequest& request, const ReduceLevels& levels);

// `functions` are the above, for these levels.
std::shared_ptr<const CollectiveFactory> MakeFactory(const ReduceLevels& levels,
                                                     Algorithm functions);

}  // namespace two_levels

// An all-reduce on both levels of a machine, inside tasks and between them, of
// any two registered reductions that are schedules of one level and fit
// (CheckFitsAsPart()):
//   REGISTER_COLLECTIVE(
//       ShuffleThenRing, Hierarchical<"DirectReduceScatter", "RingReduce">());
//   REGISTER_COLLECTIVE(
//       LocalThenRing, Hierarchical<"LocalReduce", "RingReduce">());
//
// `inside` is a schedule that reduce-scatters, reduces or all-reduces, and the
// whole then a schedule, or LocalReduce, which stands for one pass over memory
// in each process. `between` is a schedule that all-reduces.
//
// The program links both: else it is ruled out with the reason, and calls that
// name it end with NOT_FOUND.
template <ImplementationName inside, ImplementationName between>
std::shared_ptr<const CollectiveFactory> Hierarchical() {
  static constexpr ReduceLevels kLevels = {.inside = inside.text,
                                           .between = between.text};
  return two_levels::MakeFactory(
      kLevels,
      {.traits = {.check_parts = [] { return two_levels::CheckParts(kLevels); },
                  .cost_seconds =
                      [](const CostQuery& query) {
                        return two_levels::Seconds(query, kLevels);
                      }},
       .plan =
           [](const PlanRequest& request) {
             return two_levels::Plan(request, kLevels);
           },
       .subdivide =
           [](const SubdivisionRequest& request) {
             return two_levels::Subdivide(request, kLevels);
           },
       .outline =
           [](const PlanRequest& request) {
             return two_levels::MakeOutline(request, kLevels);
           }});
}

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_H_
