#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status_macros.h"
#include "schedule/proof/symbolic.h"
#include "schedule/proof/verifier.h"
#include "schedule/step_depth.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/commands/algorithm_commands.h"
#include "tools/draw/schedule_files.h"
#include "tools/files/output_files.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

constexpr char kScheduleHelp[] =
    R"(Shows what each rank does in a collective, step by step. Nothing is executed.

--text lists the steps of each rank as LANE.STEP. Lanes run at once; a step
starts when the one before it in its lane is complete, and the one that it is
after. data is the output, scratch is memory in between; [3] is chunk 3 of as
many as the first line says. (+) reduces, from left to right; finish divides
the sum of an average.

--svg draws it: columns are ranks, time goes down. A band has the transfers that
can run at once, each arrow all that one rank sends to another, with the numbers
of the chunks; tooltips have the steps. At most 64 ranks. Of subdivisions that
follow each other on one way it draws the first 4, and says of how many.

--goal writes a trace in GOAL, for LogGOPSim (T. Hoefler et al.): sends and
receives with their bytes in float32, of --bytes, and what they wait for.
Reductions and copies take no time in it (calc 0), nor do empty transfers,
which do not take place. txt2bin makes it binary, as the simulator wants it.

LocalThenRing and its like run as passes over memory within tasks. Shown is an
algorithm that stands for them, with messages there; a note says so.

Files appear under their names when they are complete, and folders that are not
there are made.

--bytes is the size of the larger of one rank's two buffers, as in
`tutti explain`. Algorithms with subdivisions run as many as the library would
choose for it.

Examples:
  tutti schedule RingReduce --ranks 4
  tutti schedule HierarchicalTreeBroadcast --layout 2x4 --root 3
  tutti schedule TreeReduce --ranks 16 --collective reduce --svg tree.svg
  tutti schedule RingGather --ranks 8 --bytes 64K --goal ring.goal)";

constexpr int kMaxRanks = 1024;
constexpr int kMaxDrawnRanks = 64;

// Subdivisions of one offset. Each repeats the previous one a round later: four
// show the pattern and fit on a page.
constexpr size_t kMaxDrawnPieces = 4;

// Schedule to show.
struct Shown {
  std::string title;
  ScheduleRequest of;
};

absl::Status CheckFormat(const ScheduleOptions& options, int num_ranks) {
  const int num_formats = (options.text ? 1 : 0) +
                          (options.svg.empty() ? 0 : 1) +
                          (options.goal.empty() ? 0 : 1);
  if (num_formats > 1) {
    return UsageError("wanted one of --text, --svg and --goal");
  }
  if (options.svg.empty() || num_ranks <= kMaxDrawnRanks) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat("--svg draws at most ", kMaxDrawnRanks,
                                 " ranks, not ", num_ranks));
}

// Limits the pieces to the number that a picture can show.
Shown Drawn(const ScheduleWords& words, Shown shown) {
  std::vector<int>& offsets = shown.of.request.subdiv_offsets;
  const size_t num_subdivs = offsets.size();
  const bool differ =
      std::adjacent_find(offsets.begin(), offsets.end(),
                         std::not_equal_to<>()) != offsets.end();
  if (differ || num_subdivs <= kMaxDrawnPieces) return shown;
  offsets.resize(kMaxDrawnPieces);
  shown.title = absl::StrCat(TitleOf(words, shown.of), " (the first of ",
                             num_subdivs, ")");
  return shown;
}

// Note on differences between the shown and the executed steps; empty if none.
std::string NoteLine(const Shown& shown) {
  const std::string& note = shown.of.shown.note;
  return note.empty() ? "" : absl::StrCat("note: ", note, "\n");
}

// Prints even plans that do not fit together, so that their author sees why.
absl::Status PrintText(const Shown& shown, const Console& console) {
  ASSIGN_OR_RETURN(const auto schedules,
                   PlanAll(shown.of.shown.algorithm, shown.of.request));
  const int num_chunks = schedules.front().num_chunks;
  console.out << shown.title << "; " << num_chunks
              << (num_chunks == 1 ? " chunk\n" : " chunks\n")
              << NoteLine(shown);
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    console.out << "\nrank " << rank << "\n";
    const std::vector<Lane>& lanes = schedules[rank].lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      for (size_t step = 0; step < lanes[lane].size(); ++step) {
        console.out << absl::StreamFormat("%7s  %s\n",
                                          absl::StrCat(lane, ".", step),
                                          ToString(lanes[lane][step]));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Svg(const Shown& shown) {
  ASSIGN_OR_RETURN(const auto plan,
                   PlanGroup(shown.of.shown.algorithm, shown.of.request));
  ASSIGN_OR_RETURN(const auto run, RunSymbolically(plan));
  const std::vector<int> depths = StepDepths(plan, run.completion_order);
  return ScheduleSvg({.title = shown.title,
                      .note = shown.of.shown.note,
                      .layout = shown.of.request.layout,
                      .plan = plan,
                      .depths = depths});
}

absl::StatusOr<std::string> Goal(const Shown& shown) {
  ASSIGN_OR_RETURN(const auto plan,
                   PlanGroup(shown.of.shown.algorithm, shown.of.request));
  RETURN_IF_ERROR(RunSymbolically(plan).status());  // The trace must end.
  return GoalTrace(plan, TransferBytes(plan, shown.of.workload));
}

absl::Status Write(const Shown& shown,
                   const absl::StatusOr<std::string>& content,
                   const std::string& path, const Console& console) {
  if (!content.ok()) return content.status();
  RETURN_IF_ERROR(WriteOutputFile(path, *content));
  console.out << shown.title << ": wrote " << path << "\n" << NoteLine(shown);
  return absl::OkStatus();
}

}  // namespace

absl::Status ShowSchedule(const ScheduleOptions& options,
                          const CollectiveRegistry& registry,
                          const Console& console) {
  ASSIGN_OR_RETURN(const auto request,
                   ParseScheduleRequest(options.words, registry, kMaxRanks));
  RETURN_IF_ERROR(CheckFormat(options, request.request.layout.size()));
  const Shown shown = {TitleOf(options.words, request), request};
  if (!options.svg.empty()) {
    const Shown drawn = Drawn(options.words, shown);
    return Write(drawn, Svg(drawn), options.svg, console);
  }
  if (!options.goal.empty()) {
    return Write(shown, Goal(shown), options.goal, console);
  }
  return PrintText(shown, console);
}

Command AddScheduleCommand(CLI::App* app) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* schedule = app->add_subcommand(
      "schedule", "Shows the steps of an algorithm, as text or drawn.");
  schedule->footer(kScheduleHelp);
  AddScheduleOptions(schedule, kMaxRanks, &options->words);
  schedule->add_flag("--text", options->text, "print the steps (the default)");
  schedule->add_option("--svg", options->svg, "draw them into a file")
      ->check(NotEmpty())
      ->option_text("FILE");
  schedule->add_option("--goal", options->goal, "write a trace for LogGOPSim")
      ->check(NotEmpty())
      ->option_text("FILE");
  return {schedule, [options](const Console& console) {
            return ShowSchedule(*options, CollectiveRegistry::Global(),
                                console);
          }};
}

}  // namespace tutti
