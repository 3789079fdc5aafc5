#include "schedule/composition.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace tutti {
namespace {

// All slots of a step.
absl::InlinedVector<Slot, 2> SlotsOf(const Step& step) {
  absl::InlinedVector<Slot, 2> slots = SlotsRead(step);
  if (Writes(step.kind)) slots.push_back(step.into);
  return slots;
}

// Returns the part [begin, end) of the step.
Step PieceOf(const Step& step, int begin, int end) {
  Step piece = step;
  const auto cut = [&](Slot* slot) {
    *slot = {slot->space, slot->chunk + begin, slot->bank, end - begin};
  };
  for (Slot* slot : {&piece.into, &piece.left, &piece.right}) cut(slot);
  for (Slot& slot : piece.more) cut(&slot);
  piece.tag += begin;
  if (begin > 0) piece.after = {};  // The piece before has waited.
  return piece;
}

// Returns true if the engine can fuse the two steps: `second` waits for no
// other step.
bool IsPair(const Step& first, const Step& second) {
  return first.kind == StepKind::kRecv && second.kind == StepKind::kReduce &&
         second.more.empty() && !second.after.is_set() &&
         (second.left == first.into || second.right == first.into);
}

// Returns true if the step reads and writes nothing.
bool IsIdle(const Step& step) {
  return step.kind == StepKind::kCopy && !step.finish && step.into == step.left;
}

bool IsWithin(const Slot& slot, int num_chunks) {
  return slot.chunk >= 0 && slot.num_chunks > 0 &&
         slot.num_chunks <= num_chunks - slot.chunk &&
         (slot.space != Space::kScratch || slot.bank >= 0);
}

// Returns true if `part` has the ranks, chunks and steps that `step` names.
bool IsWithin(const Step& step, const Composition::Part& part) {
  const auto num_ranks = static_cast<int>(part.ranks.size());
  const auto num_chunks = static_cast<int>(part.chunks.size());
  const absl::InlinedVector<Slot, 2> slots = SlotsOf(step);
  const std::vector<Lane>& lanes = part.schedule.lanes;
  const StepRef after = step.after;
  const bool is_after_a_step =
      !after.is_set() ||
      (after.lane < static_cast<int>(lanes.size()) && after.step >= 0 &&
       after.step < static_cast<int>(lanes[after.lane].size()));
  return step.peer < num_ranks && is_after_a_step &&
         absl::c_all_of(
             slots,
             [&](const Slot& slot) {
               return IsWithin(slot, num_chunks) &&
                      slot.num_chunks == slots[0].num_chunks;
             });
}

// Returns the reason why `part` is not valid, or "" if the checks here pass.
std::string ProblemOf(const Composition::Part& part) {
  const Schedule& schedule = part.schedule;
  if (!schedule.problem.empty() || schedule.lanes.empty()) {
    return schedule.problem;
  }
  if (schedule.num_chunks != static_cast<int>(part.chunks.size())) {
    return absl::StrCat("a part has ", schedule.num_chunks, " chunks, where ",
                        part.chunks.size(), " are wanted");
  }
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      if (IsWithin(step, part)) continue;
      return absl::StrCat("a part of ", part.ranks.size(), " ranks and ",
                          part.chunks.size(), " chunks has the step \"",
                          ToString(step), "\"");
    }
  }
  return "";
}

}  // namespace

// Adds one part. Lives during one Add().
class Composition::Adding {
 public:
  Adding(const Part& part, Composition& whole)
      : part_(part),
        whole_(whole),
        output_bank_(whole.num_banks_),
        first_bank_(whole.num_banks_ + 1),
        first_lane_(whole.schedule_.lanes.size()) {}

  void Run() {
    for (const Lane& lane : part_.schedule.lanes) AddLane(lane);
    // Steps may wait for steps of later lanes.
    for (const auto& [place, after] : waiting_) {
      StepAt(place).after = places_[after.lane][after.step];
    }
    if (part_.ends_at_once) AwaitAll();
    for (const auto& [chunk, value] : made_) whole_.values_[chunk] = value;
    whole_.num_banks_ = first_bank_ + num_banks_;
    whole_.num_tags_ += part_.num_tags;
  }

 private:
  void AddLane(const Lane& lane) {
    lane_ = -1;
    awaited_.clear();
    places_.emplace_back();
    for (size_t i = 0; i < lane.size();) {
      const bool is_pair = i + 1 < lane.size() && IsPair(lane[i], lane[i + 1]);
      const auto steps = absl::MakeConstSpan(&lane[i], is_pair ? 2 : 1);
      AddPieces(steps, /*is_alone=*/lane.size() == 1);
      i += steps.size();
    }
  }

  // Adds a step or a pair, cut where its chunks are not consecutive in the
  // whole. A pair stays one. `is_alone`: the lane has no other step.
  void AddPieces(absl::Span<const Step> steps, bool is_alone) {
    std::vector<StepRef> places(steps.size());
    const auto slots = SlotsOf(steps[0]);
    const int count = slots.empty() ? 1 : slots[0].num_chunks;
    for (int begin = 0, end = 1; begin < count; begin = end++) {
      while (end < count && AreConsecutive(steps, end)) ++end;
      std::vector<StepRef> needed = NeededBy(PieceOf(steps.back(), begin, end));
      for (size_t i = 0; i < steps.size(); ++i) {
        places[i] = AddStep(PieceOf(steps[i], begin, end), needed,
                            is_alone && end - begin == count);
        needed.clear();
      }
    }
    places_.back().insert(places_.back().end(), places.begin(), places.end());
  }

  // Returns true if chunk `i` of all slots follows chunk i - 1 in the whole.
  bool AreConsecutive(absl::Span<const Step> steps, int i) const {
    return absl::c_all_of(steps, [&](const Step& step) {
      return absl::c_all_of(SlotsOf(step), [&](const Slot& slot) {
        return part_.chunks[slot.chunk + i] ==
               part_.chunks[slot.chunk + i - 1] + 1;
      });
    });
  }

  // Makes every chunk of the part wait for the last steps of all its lanes.
  void AwaitAll() {
    const size_t end = whole_.schedule_.lanes.size();
    lane_ = -1;
    StepRef all;
    for (size_t lane = first_lane_; lane < end; ++lane) {
      const size_t num_steps = whole_.schedule_.lanes[lane].size();
      all = Append(
          {.kind = StepKind::kWait,
           .after = {static_cast<int>(lane), static_cast<int>(num_steps) - 1}});
    }
    for (auto& [chunk, value] : made_) value.made = all;
  }

  // Returns the steps of earlier parts that `step` or, if it ends a pair, the
  // pair needs, and that no earlier step of the lane awaits.
  std::vector<StepRef> NeededBy(const Step& step) {
    std::vector<StepRef> needed;
    const auto add = [&](const Slot& slot) {
      for (int i = 0; i < slot.num_chunks; ++i) {
        const Value& value = whole_.values_[part_.chunks[slot.chunk + i]];
        // Values in other places are not overwritten.
        if (slot.space == Space::kData && value.slot.space != Space::kData) {
          continue;
        }
        if (!value.made.is_set()) continue;
        if (absl::c_linear_search(awaited_, value.made)) continue;
        awaited_.push_back(value.made);
        needed.push_back(value.made);
      }
    };
    for (const Slot& slot : SlotsOf(step)) {
      if (slot.space == Space::kInput) add(slot);
    }
    const bool writes_output =
        Writes(step.kind) && step.into.space == Space::kData;
    if (needed.empty() && writes_output) add(step.into);
    return needed;
  }

  // Adds the step and returns its place. If the step is left out, returns the
  // step to wait for instead. In a lane with other steps or pieces an idle step
  // stays, because later steps wait with it.
  StepRef AddStep(const Step& step, absl::Span<const StepRef> needed,
                  bool is_alone) {
    Step added = Translated(step);
    added.after = {};
    if (is_alone && IsIdle(added) && !step.after.is_set() &&
        needed.size() <= 1) {
      return needed.empty() ? StepRef{} : needed[0];
    }
    // A step has only one `after`: steps before it wait for the others.
    while (!needed.empty() && (step.after.is_set() || needed.size() > 1)) {
      Append({.kind = StepKind::kWait, .after = needed[0]});
      needed.remove_prefix(1);
    }
    if (!needed.empty()) added.after = needed[0];
    const StepRef place = Append(added);
    if (step.after.is_set()) waiting_.emplace_back(place, step.after);
    if (Writes(step.kind) && step.into.space == Space::kData) {
      for (int i = 0; i < added.into.num_chunks; ++i) {
        const Slot made = added.into.At(i);
        made_.emplace_back(made.chunk, Value{made, place});
      }
    }
    return place;
  }

  Step Translated(const Step& step) {
    Step result = step;
    result.finish = step.finish && part_.finishes;
    if (Writes(step.kind)) result.into = Translated(step.into);
    if (Reads(step.kind)) result.left = Translated(step.left);
    if (step.kind == StepKind::kReduce) result.right = Translated(step.right);
    for (Slot& operand : result.more) operand = Translated(operand);
    if (step.peer >= 0) result.peer = part_.ranks[step.peer];
    const int64_t tag = int64_t{step.tag} * part_.tag_stride + part_.first_tag +
                        whole_.num_tags_;
    result.tag = static_cast<int32_t>(
        std::min<int64_t>(tag, kNumTags));  // The compiler refuses kNumTags.
    return result;
  }

  Slot Translated(const Slot& slot) {
    Slot result = TranslatedChunk(slot);
    for (int i = 1; i < slot.num_chunks; ++i) {
      if (TranslatedChunk(slot.At(i)) == result.At(i)) continue;
      whole_.schedule_.problem =
          absl::StrCat("the chunks of ", ToString(slot),
                       " of a part are not in one place of the whole");
    }
    result.num_chunks = slot.num_chunks;
    return result;
  }

  // Translates the slot's first chunk.
  Slot TranslatedChunk(const Slot& slot) {
    const int chunk = part_.chunks[slot.chunk];
    switch (slot.space) {
      case Space::kInput:
        return whole_.values_[chunk].slot;
      case Space::kData:
        return whole_.memory_.OutputHas(whole_.rank_, chunk)
                   ? Data(chunk)
                   : Scratch(chunk, output_bank_);
      case Space::kScratch:
        break;
    }
    num_banks_ = std::max(num_banks_, slot.bank + 1);
    return Scratch(chunk, first_bank_ + slot.bank);
  }

  StepRef Append(const Step& step) {
    auto& lanes = whole_.schedule_.lanes;
    if (lane_ < 0) {
      lane_ = static_cast<int>(lanes.size());
      lanes.emplace_back();
    }
    lanes[lane_].push_back(step);
    return {lane_, static_cast<int>(lanes[lane_].size()) - 1};
  }

  Step& StepAt(StepRef place) {
    return whole_.schedule_.lanes[place.lane][place.step];
  }

  const Part& part_;
  Composition& whole_;
  const int output_bank_;
  const int first_bank_;
  const size_t first_lane_;  // First lane of the part in the whole.
  int num_banks_ = 0;
  std::vector<std::pair<int, Value>> made_;  // Chunk and value, in order.
  int lane_ = -1;                 // Lane of the whole; -1 while it is empty.
  std::vector<StepRef> awaited_;  // Steps that the lane's steps wait for.
  std::vector<std::vector<StepRef>> places_;          // By the part's steps.
  std::vector<std::pair<StepRef, StepRef>> waiting_;  // For the part's steps.
};

Composition::Composition(GroupMemory memory, int rank)
    : memory_(std::move(memory)), rank_(rank), values_(memory_.num_chunks) {
  schedule_.num_chunks = memory_.num_chunks;
  for (int chunk = 0; chunk < memory_.num_chunks; ++chunk) {
    values_[chunk].slot = Input(chunk);
  }
}

void Composition::Add(const Part& part) {
  if (schedule_.problem.empty()) schedule_.problem = ProblemOf(part);
  if (schedule_.problem.empty()) Adding(part, *this).Run();
}

}  // namespace tutti
