#include <algorithm>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/standard_cases.h"
#include "tools/base/command_line.h"
#include "tools/base/console.h"
#include "tools/base/json_value.h"
#include "tools/base/text.h"
#include "tools/commands/algorithm_commands.h"
#include "tools/request/request_options.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

constexpr char kVerifyHelp[] =
    R"(Runs the schedules of each algorithm in symbols, for all ranks at once, and
proves that they end whatever the timing, that every output holds each
contribution exactly once, and that no step races with another. The cases are
all group sizes up to --max-ranks, every collective of the algorithm, ranks on
one task, on many and on uneven ones, every root, several permutations and
subdivisions, in place and not. Beyond 64 ranks they are only the sizes next to
powers of two (2^k - 1, 2^k, 2^k + 1) and --max-ranks itself, with four roots:
"1..64 + 11 up to 1000" means 75 sizes. Nothing is executed, so that
algorithms which are no schedules have nothing to prove, but for those that a
schedule stands for, such as LocalThenRing: a note says what they do otherwise.
One without a plan, as where a part of it is not linked, has failed in one case.

Exit status 1 if a case failed; the first one of each algorithm is shown.

--json prints a list with an object for each algorithm:
  name, is_schedule            nothing more where there is nothing to prove
  note                         what runs otherwise than proved; null if nothing
                               does
  max_ranks, group_sizes       the largest group, and how many sizes there were
  cases, failed                numbers of cases
  first_failure                text; null if nothing failed

Examples:
  tutti verify
  tutti verify RingReduce TreeReduce --max-ranks 16
  tutti verify --max-ranks 8 --json)";

// Result for one algorithm.
struct Verdict {
  std::string name;
  bool is_schedule = false;
  std::optional<VerifyReport> report;  // Nullopt: nothing to prove.
  std::string note;                    // From StandIn::note.

  bool failed() const { return report.has_value() && report->failed > 0; }
};

// `place` is the algorithm's position among all, such as "3 of 11".
Verdict Verify(const CollectiveRegistry::Entry& entry, const std::string& place,
               int max_ranks, const Console& console) {
  Verdict verdict = {.name = entry.name,
                     .is_schedule = AlgorithmOf(*entry.factory) != nullptr};
  const auto shown = StandInOf(*entry.factory);
  if (absl::IsUnimplemented(shown.status())) return verdict;
  if (!shown.ok()) {
    verdict.report = {.cases = 1, .failed = 1, .first_failure = shown.status()};
    return verdict;
  }
  constexpr int64_t kCasesPerUpdate = 100;
  const std::string what =
      absl::StrCat("verifying ", entry.name, " (", place, ")");
  Progress progress(console);
  progress.Show(absl::StrCat(what, " ..."));
  const CaseLimits limits = {.max_ranks = max_ranks};
  const auto show = [&](const VerifyReport& report) {
    if (report.cases % kCasesPerUpdate == 0) {
      progress.Show(absl::StrCat(what, ": ", report.largest_group, " ranks, ",
                                 report.cases, " cases ..."));
    }
    return true;
  };
  verdict.report = VerifyStandardCases(shown->algorithm, limits, show);
  verdict.note = shown->note;
  return verdict;
}

// Text such as "1..16", or "1..64 + 11 up to 1000" if some sizes were skipped.
std::string Sizes(const VerifyReport& report) {
  if (report.num_sizes == 0) return "-";
  if (report.num_sizes == report.largest_group) {
    return absl::StrCat("1..", report.largest_group);
  }
  const int thorough_ranks = CaseLimits().thorough_ranks;
  return absl::StrCat("1..", thorough_ranks, " + ",
                      report.num_sizes - thorough_ranks, " up to ",
                      report.largest_group);
}

std::vector<std::string> Cells(const Verdict& verdict) {
  if (!verdict.report.has_value()) {
    return {verdict.name, "-", "-", "-", "not a schedule"};
  }
  const VerifyReport& report = *verdict.report;
  return {verdict.name, Sizes(report), absl::StrCat(report.cases),
          absl::StrCat(report.failed), verdict.failed() ? "FAILED" : "ok"};
}

Json ToJson(const Verdict& verdict) {
  Json json = {{"name", verdict.name}, {"is_schedule", verdict.is_schedule}};
  if (!verdict.report.has_value()) return json;
  const VerifyReport& report = *verdict.report;
  json["note"] = OrNull(verdict.note);
  json["max_ranks"] = report.largest_group;
  json["group_sizes"] = report.num_sizes;
  json["cases"] = report.cases;
  json["failed"] = report.failed;
  json["first_failure"] = OrNull(std::string(report.first_failure.message()));
  return json;
}

// Entries that `names` name, in their order; all if `names` is empty.
absl::StatusOr<std::vector<CollectiveRegistry::Entry>> Choose(
    const std::vector<std::string>& names, const CollectiveRegistry& registry) {
  if (names.empty()) return registry.List();
  std::vector<CollectiveRegistry::Entry> chosen;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const auto factory, FindAlgorithm(registry, name));
    chosen.push_back({name, factory});
  }
  return chosen;
}

TextTable VerdictTable(const std::vector<CollectiveRegistry::Entry>& entries,
                       int max_ranks) {
  size_t name_width = 0;
  for (const auto& entry : entries) {
    name_width = std::max(name_width, entry.name.size());
  }
  const bool all_sizes = max_ranks <= CaseLimits().thorough_ranks;
  const size_t ranks_width = all_sizes ? 8 : 22;
  return TextTable({{"name", Align::kLeft, name_width},
                    {"ranks", Align::kRight, ranks_width},
                    {"cases", Align::kRight, 8},
                    {"failed"},
                    {"result", Align::kLeft}});
}

// The first failure and the note on separate, indented lines.
std::string LinesBelow(const Verdict& verdict) {
  std::string lines;
  if (verdict.failed()) {
    absl::StrAppend(&lines, "  ", verdict.report->first_failure.message(),
                    "\n");
  }
  if (!verdict.note.empty()) {
    absl::StrAppend(&lines, "  note: ", verdict.note, "\n");
  }
  return lines;
}

}  // namespace

absl::Status VerifyAlgorithms(const VerifyOptions& options,
                              const CollectiveRegistry& registry,
                              const Console& console) {
  ASSIGN_OR_RETURN(const auto entries, Choose(options.names, registry));
  const TextTable table = VerdictTable(entries, options.max_ranks);
  if (!options.json) console.out << table.Header() << std::flush;
  Json rows = Json::array();
  int num_failed = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string place = absl::StrCat(i + 1, " of ", entries.size());
    const Verdict verdict =
        Verify(entries[i], place, options.max_ranks, console);
    num_failed += verdict.failed() ? 1 : 0;
    rows.push_back(ToJson(verdict));
    if (!options.json) {
      console.out << table.Row(Cells(verdict)) << LinesBelow(verdict)
                  << std::flush;
    }
    // Stops here: nobody could read the rest, which may take hours.
    if (!console.out) {
      return OutputLostError();
    }
  }
  if (options.json) console.out << rows.dump(2) << "\n";
  if (num_failed == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(num_failed, " of ", entries.size(), " algorithms failed"));
}

Command AddVerifyCommand(CLI::App* app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify =
      app->add_subcommand("verify", "Proves registered algorithms right.");
  verify->footer(kVerifyHelp);
  verify
      ->add_option("NAME", options->names,
                   "registered names (see `tutti info`) [default: all]")
      ->option_text(" ");
  verify
      ->add_option("--max-ranks", options->max_ranks,
                   "largest group [default: 64]")
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  verify->add_flag("--json", options->json, "print a JSON list");
  return {verify, [options](const Console& console) {
            return VerifyAlgorithms(*options, CollectiveRegistry::Global(),
                                    console);
          }};
}

}  // namespace tutti
