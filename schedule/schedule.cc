#include "tutti/schedule.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

std::string Action(const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      return absl::StrCat("send ", ToString(step.left), " to ", step.peer,
                          ", tag ", step.tag);
    case StepKind::kRecv:
      return absl::StrCat("recv ", ToString(step.into), " from ", step.peer,
                          ", tag ", step.tag);
    case StepKind::kReduce:
      return absl::StrCat(
          ToString(step.into), " = ",
          absl::StrJoin(SlotsRead(step), " (+) ",
                        [](std::string* text, const Slot& slot) {
                          text->append(ToString(slot));
                        }));
    case StepKind::kCopy:
      return absl::StrCat(ToString(step.into), " = ", ToString(step.left));
    case StepKind::kWait:
      return "wait";
  }
  return "unknown step";
}

}  // namespace

absl::InlinedVector<Slot, 2> SlotsRead(const Step& step) {
  absl::InlinedVector<Slot, 2> operands;
  if (!Reads(step.kind)) return operands;
  operands.push_back(step.left);
  if (step.kind != StepKind::kReduce) return operands;
  operands.push_back(step.right);
  operands.insert(operands.end(), step.more.begin(), step.more.end());
  return operands;
}

std::string ToString(const Slot& slot) {
  std::string chunks = absl::StrCat("[", slot.chunk);
  if (slot.num_chunks != 1) {
    absl::StrAppend(&chunks, "-", int64_t{slot.chunk} + slot.num_chunks - 1);
  }
  chunks += ']';
  switch (slot.space) {
    case Space::kInput:
      return absl::StrCat("input", chunks);
    case Space::kData:
      return absl::StrCat("data", chunks);
    case Space::kScratch:
      return slot.bank == 0 ? absl::StrCat("scratch", chunks)
                            : absl::StrCat("scratch", chunks, ".", slot.bank);
  }
  return "unknown slot";
}

std::string ToString(const Step& step) {
  std::string text = Action(step);
  if (step.finish) absl::StrAppend(&text, ", finish");
  if (step.after.is_set()) {
    absl::StrAppend(&text, ", after ", step.after.lane, ".", step.after.step);
  }
  return text;
}

std::string ToString(const Schedule& schedule) {
  std::string text = absl::StrCat(schedule.num_chunks, " chunks\n");
  for (size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (size_t step = 0; step < schedule.lanes[lane].size(); ++step) {
      absl::StrAppend(&text, lane, ".", step, ": ",
                      ToString(schedule.lanes[lane][step]), "\n");
    }
  }
  return text;
}

}  // namespace tutti
