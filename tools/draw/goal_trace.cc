#include "tools/draw/goal_trace.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Stands for a transfer of no bytes: LogGOPSim takes one byte off each message,
// so a message of 0 bytes is impossible.
constexpr absl::string_view kNothing = "calc 0";

std::string Label(int step, int first) {
  return absl::StrCat("l", step - first + 1);
}

std::string Operation(const Step& step, int64_t bytes) {
  if (!IsTransfer(step) || bytes == 0) return std::string(kNothing);
  const bool sends = step.kind == StepKind::kSend;
  return absl::StrCat(sends ? "send " : "recv ", bytes, "b ",
                      sends ? "to " : "from ", step.peer, " tag ", step.tag);
}

// Appends the steps that `step` waits for; `first` is the first step of the
// rank.
void AppendNeeds(const GroupPlan& plan, int step, int first,
                 std::string* text) {
  const auto append = [&](int needed) {
    absl::StrAppend(text, Label(step, first), " requires ",
                    Label(needed, first), "\n");
  };
  if (step != plan.lane(plan.lane_of(step)).first_step) append(step - 1);
  if (plan.after(step) >= 0) append(plan.after(step));
}

}  // namespace

std::string GoalTrace(const GroupPlan& plan, absl::Span<const int64_t> bytes) {
  std::string text = absl::StrCat("num_ranks ", plan.num_ranks(), "\n");
  int step = 0;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    absl::StrAppend(&text, "\nrank ", rank, " {\n");
    const int first = step;
    for (; step < plan.num_steps() && plan.rank_of(step) == rank; ++step) {
      absl::StrAppend(&text, Label(step, first), ": ",
                      Operation(plan.step(step), bytes[step]), "\n");
    }
    // LogGOPSim requires at least one operation.
    if (step == first) {
      absl::StrAppend(&text, Label(step, first), ": ", kNothing, "\n");
    }
    for (int later = first; later < step; ++later) {
      AppendNeeds(plan, later, first, &text);
    }
    absl::StrAppend(&text, "}\n");
  }
  return text;
}

}  // namespace tutti
