#ifndef TUTTI_SCHEDULE_H_
#define TUTTI_SCHEDULE_H_

// Schedules: algorithms as data. An author writes a pure function from layout,
// rank and parameters to a Schedule, and registers it by REGISTER_COLLECTIVE
// and Scheduled(). The engine runs the schedule, the verifier proves it and the
// simulator prices it. Hierarchical() combines two registered algorithms into
// an all-reduce on two levels.

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

// The actions of one rank in one collective, as data: sends, receives,
// reductions and copies of chunks. A schedule names chunks, not bytes, so one
// schedule serves every size and dtype. Engine, verifier and simulator use the
// same value.
//
// Memory. A collective cuts its buffers into `num_chunks` chunks (chunk_map.h
// gives the bytes of each). A slot is one chunk, or a range of consecutive
// chunks, in one of three spaces:
//  - kInput: the member's input; never written.
//  - kData: the member's output. In place, kInput c and kData c are the same
//    bytes.
//  - kScratch: memory of the engine, undefined at the start; `bank` numbers the
//    scratch copies of one chunk.
enum class Space : uint8_t { kInput, kData, kScratch };

struct Slot {
  Space space = Space::kData;
  int32_t chunk = 0;  // First chunk.
  int32_t bank = 0;   // kScratch only.
  int32_t num_chunks = 1;

  // Returns chunk `i` of the range.
  constexpr Slot At(int i) const { return {space, chunk + i, bank, 1}; }

  friend bool operator==(const Slot&, const Slot&) = default;
};

constexpr Slot Input(int chunk, int num_chunks = 1) {
  return {Space::kInput, chunk, 0, num_chunks};
}
constexpr Slot Data(int chunk, int num_chunks = 1) {
  return {Space::kData, chunk, 0, num_chunks};
}
constexpr Slot Scratch(int chunk, int bank = 0, int num_chunks = 1) {
  return {Space::kScratch, chunk, bank, num_chunks};
}

// A step of this schedule; lane < 0 means none.
struct StepRef {
  int32_t lane = -1;
  int32_t step = 0;

  bool is_set() const { return lane >= 0; }
  friend bool operator==(const StepRef&, const StepRef&) = default;
};

enum class StepKind : uint8_t {
  kSend,    // Posts `left` to `peer`; complete when `peer` has read it.
  kRecv,    // Receives bytes of `peer` into `into`; complete on arrival.
  kReduce,  // into = left (+) right (+) more, in this order (Fold()).
  kCopy,    // into = left.
  kWait,    // Does nothing; later steps of the lane also wait for `after`.
};

// True if the step has `left`. Only kReduce has `right` and `more`.
constexpr bool Reads(StepKind kind) {
  return kind != StepKind::kRecv && kind != StepKind::kWait;
}

// True if the step has `into`.
constexpr bool Writes(StepKind kind) {
  return kind != StepKind::kSend && kind != StepKind::kWait;
}

// Number of tags. Tags start at 0.
inline constexpr int32_t kNumTags = int32_t{1} << 30;

// An action of a rank. Starts when the previous step of its lane and `after`
// are complete. All slots of a step have equally many chunks; the step acts on
// chunk i of each. `into` equals an operand or has none of its bytes. A range
// is sent as one message.
//
// A send meets the peer's receive with the same tag. A pair of ranks uses a tag
// once in each direction. Transfers of nothing but empty chunks are skipped on
// both sides, unless each member declares its own empty chunks
// (CollInstanceParams::rows_are_given).
struct Step {
  StepKind kind = StepKind::kCopy;
  // kReduce and kCopy: also applies the collective's final op to `into`.
  bool finish = false;
  Slot into;
  Slot left;
  Slot right;
  std::vector<Slot> more;  // kReduce: operands after `right`.
  int32_t peer = -1;
  int32_t tag = 0;
  StepRef after;
};

// Slots that the step reads, in order.
absl::InlinedVector<Slot, 2> SlotsRead(const Step& step);

// Steps in order. Lanes run concurrently.
using Lane = std::vector<Step>;

struct Schedule {
  int num_chunks = 1;
  std::vector<Lane> lanes;

  // Set if no schedule exists: holds the reason, and the other fields mean
  // nothing.
  std::string problem;
};

// Returns "data[3]", "data[3-6]", "scratch[3]" or "scratch[3].1".
std::string ToString(const Slot& slot);

// Returns "send input[0] to 3, tag 7, after 0.2".
std::string ToString(const Step& step);

// Returns one line per step, with lanes numbered.
std::string ToString(const Schedule& schedule);

// Writes a Schedule lane by lane. Each call appends one step and returns a
// reference that later steps can wait for.
//
//   ScheduleBuilder builder(/*num_chunks=*/1);
//   auto lane = builder.AddLane();
//   const StepRef arrived = lane.Recv(peer, tag, Data(0));
//   builder.AddLane().Send(next, tag, Data(0), arrived);
//   return builder.Build();
class ScheduleBuilder {
 public:
  // Handle on one lane; valid as long as the builder.
  class LaneBuilder {
   public:
    StepRef Send(int peer, int tag, Slot from, StepRef after = {});
    StepRef Recv(int peer, int tag, Slot into, StepRef after = {});
    StepRef Reduce(Slot into, Slot left, Slot right, StepRef after = {});
    StepRef Copy(Slot into, Slot from, StepRef after = {});

    // Reduce and Copy that also apply the final op to `into`.
    StepRef ReduceAndFinish(Slot into, Slot left, Slot right,
                            StepRef after = {});
    StepRef CopyAndFinish(Slot into, Slot from, StepRef after = {});

    // Reductions of any number of operands, at least one. One operand: a Copy.
    StepRef ReduceMany(Slot into, absl::Span<const Slot> operands,
                       StepRef after = {});
    StepRef ReduceManyAndFinish(Slot into, absl::Span<const Slot> operands,
                                StepRef after = {});

    // Makes later steps of the lane also wait for `after`.
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

  // Returns the finished schedule. Call once, last.
  Schedule Build() { return std::move(schedule_); }

 private:
  Schedule schedule_;
};

// The actions of a group's ranks in a collective, round by round, as numbers of
// chunks. A plan may have steps in the square of the number of ranks; its
// outline may have far fewer entries. An outline allows simulation of groups
// whose plans are too large to write down.
//
// A round holds all actions of one depth (step_depth.h): round d has the
// transfers of depth d, and the reductions and copies that follow them. Round 0
// has no transfers.
struct OutlineRound {
  // All messages from one rank to another, each pair once.
  struct Transfer {
    int32_t from = 0;
    int32_t to = 0;
    int64_t chunks = 0;
    int64_t messages = chunks;
    friend bool operator==(const Transfer&, const Transfer&) = default;
    friend bool operator<(const Transfer& a, const Transfer& b) {
      return std::tie(a.from, a.to) < std::tie(b.from, b.to);
    }
  };

  // Local work of a rank, each rank once.
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

    // Scratch of the rank that needs most memory besides its input and output.
    int64_t scratch_chunks = 0;

    // Rank r + period repeats the actions of rank r, with all ranks shifted by
    // `period` modulo the number of ranks. The number of ranks is a multiple of
    // it. Equal to the number of ranks: no claim.
    int period = 1;

    // In every round but round 0, each rank sends to one fixed rank, which has
    // no other sender. In every round, all ranks send and work equally much.
    bool is_ring = false;

    // Largest number of transfers in a round, thus of ranks that send. 0: no
    // claim.
    int64_t most_transfers = 0;

    friend bool operator==(const Size&, const Size&) = default;
  };

  explicit Outline(const Size& size) : size_(size) {}
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;
  virtual ~Outline() = default;

  const Size& size() const { return size_; }

  // Appends the transfers and work of ranks [first, end) in a round, in rank
  // order. REQUIRES: 0 <= round < num_rounds and 0 <= first <= end <=
  // num_ranks.
  virtual void Append(int round, int first, int end,
                      OutlineRound* into) const = 0;

  // Number of output chunks that `rank` writes for the last time in a round. In
  // a composition, the next part may start on these chunks then. REQUIRES: as
  // for Append().
  virtual int64_t NumResults(int round, int rank) const = 0;

 private:
  const Size size_;
};

// Inputs that a plan may depend on. All values are checked before a plan sees
// them.
struct PlanRequest {
  const GroupLayout& layout;
  CollectiveType type = CollectiveType::kAllReduce;
  int rank = 0;
  int root = 0;  // Valid where HasRoot(type).

  // kPermute only: the input of rank i goes to rank permutation[i].
  absl::Span<const int> permutation;

  // Entries, one per ring or tree; never empty if the traits say
  // supports_subdivisions. An offset k >= 0 starts k devices further in each
  // task. A negative offset -k goes backwards through the devices and starts k
  // further in that direction. Offsets count modulo the devices of the task.
  absl::Span<const int> subdiv_offsets;

  // Set only if the traits take a list of ranks: each rank at most once, for
  // kAllRanks every rank. Empty: the algorithm's default order.
  absl::Span<const int> rank_list;

  // Blocks may differ in size: they are uneven, or part of an all-reduce. Else
  // all blocks have the same size. Matters where partial sums take turns in
  // scratch.
  bool blocks_differ = false;

  // True if this member's output is its input (where chunks have the same
  // number). Members may differ in this, so it must not change sends and
  // receives.
  bool in_place = false;
};

// Inputs for the choice of subdivisions if the caller gave no offsets. The
// default makes bytes / (ranks * subdivisions) at most 4 MiB, as far as the
// maximum allows.
struct SubdivisionRequest {
  const GroupLayout& layout;
  int64_t bytes = 0;               // Larger of one member's input and output.
  int max_subdivs_per_device = 0;  // See CollImplDetails.

  // All members are GPUs of one process, so each step is a launch.
  bool are_launches = false;
};

// An algorithm whose steps are known before it runs.
struct Algorithm {
  ImplementationTraits traits;

  // Returns the schedule of one rank. Pure. Called only if CheckParts() is OK,
  // like the functions below.
  Schedule (*plan)(const PlanRequest& request) = nullptr;

  // Returns the default subdivision offsets. Pure. Null unless the traits say
  // supports_subdivisions.
  std::vector<int> (*subdivide)(const SubdivisionRequest& request) = nullptr;

  // Predicts seconds as traits.cost_seconds does, for a given number of
  // subdivisions. Pure. Null: the number makes no difference.
  double (*subdivided_seconds)(const CostQuery& query,
                               int num_subdivs) = nullptr;

  // Returns the outline of `plan`'s schedules, for groups that are too large to
  // plan; `rank` is ignored. Pure; the outline does not refer to the request.
  // Null, or an error with the reason: there are only plans. The conformance
  // suite compares outline and plan.
  absl::StatusOr<std::unique_ptr<const Outline>> (*outline)(
      const PlanRequest& request) = nullptr;
};

// Factory that registers an algorithm:
//   REGISTER_COLLECTIVE(RingReduce, Scheduled({.traits = ..., .plan = Plan}));
// Null if there is no plan function; null cannot be registered.
std::shared_ptr<const CollectiveFactory> Scheduled(Algorithm algorithm);

// Algorithm behind a factory; null if the factory was not made by Scheduled().
const Algorithm* AlgorithmOf(const CollectiveFactory& factory);

// Checks that an implementation can be a part of another one: it runs on all
// devices, in all groups, with all ops, and gives the same bits for a fixed
// layout. Errors: INVALID_ARGUMENT with the name and the missing property.
absl::Status CheckFitsAsPart(absl::string_view name,
                             const ImplementationTraits& traits);

// A registered name as a template argument.
template <size_t size>
struct ImplementationName {
  consteval ImplementationName(const char (&name)[size]) {  // NOLINT: a name.
    std::copy_n(name, size, text);
  }
  constexpr absl::string_view view() const { return {text, size - 1}; }

  char text[size];
};

// Parts of an all-reduce on two levels, as names of the global registry. Both
// are schedules of one level that fit (CheckFitsAsPart()).
struct ReduceLevels {
  absl::string_view inside;   // Reduce-scatters, reduces or all-reduces.
  absl::string_view between;  // All-reduces.
};

// Functions and factory of an all-reduce on two levels, for Hierarchical().
namespace two_levels {

absl::Status CheckParts(const ReduceLevels& levels);
double Seconds(const CostQuery& query, const ReduceLevels& levels);
Schedule Plan(const PlanRequest& request, const ReduceLevels& levels);
std::vector<int> Subdivide(const SubdivisionRequest& request,
                           const ReduceLevels& levels);
absl::StatusOr<std::unique_ptr<const Outline>> MakeOutline(
    const PlanRequest& request, const ReduceLevels& levels);

// Makes the factory for `levels`; `functions` are the functions above.
std::shared_ptr<const CollectiveFactory> MakeFactory(const ReduceLevels& levels,
                                                     Algorithm functions);

}  // namespace two_levels

// Makes an all-reduce on both levels of a machine, inside tasks and between
// them. It combines any two registered reductions that are schedules of one
// level and fit (CheckFitsAsPart()):
//   REGISTER_COLLECTIVE(
//       ShuffleThenRing, Hierarchical<"DirectReduceScatter", "RingReduce">());
//   REGISTER_COLLECTIVE(
//       LocalThenRing, Hierarchical<"LocalReduce", "RingReduce">());
//
// `between` is a schedule that all-reduces. `inside` is a schedule that
// reduce-scatters, reduces or all-reduces; then the whole is a schedule.
// `inside` may also be LocalReduce, which means one pass over memory in each
// process.
//
// The program links both parts. Otherwise the algorithm is ruled out with the
// reason, and calls that name it end with NOT_FOUND.
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
