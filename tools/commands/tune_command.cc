#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/base/console.h"
#include "tools/base/exit_status.h"
#include "tools/base/text.h"
#include "tools/cluster/cluster_mode.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/gpus.h"
#include "tools/cluster/party.h"
#include "tools/commands/collective_commands.h"
#include "tools/files/output_files.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_plan.h"
#include "tools/measure/perf_runner.h"
#include "tools/measure/store_calibration.h"
#include "tools/measure/tune_plan.h"
#include "tools/request/request_options.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

constexpr char kTuneHelp[] =
    R"(Measures every algorithm that can serve, for each collective, layout and size,
and writes a file of rules for --rules and TUTTI_RULES of `tutti run`, `tutti
perf` and `tutti explain`. The file is JSON, made to be edited: docs/rules.md.
Whether it can be written is looked at first.

All ranks are in this process, and the rules are for such groups. Where `tutti
launch`, mpirun or the options of a cluster start several, these measure
together, on the layout that they have, and the rules are for groups of such
processes; task 0 alone prints and writes. Under mpirun the rules may name what
MPI runs.

Algorithms take turns, round after round, and are measured as by `tutti perf`;
what counts is the median. All is measured twice: the rules follow from the
first time, and the scores from the second, so that the rules are not judged by
the noise that they were made from. The rules are as few as keep each point
within 5 % of its best. An algorithm that refuses is left out with a line on
standard error.

With --device gpu it measures on GPUs, and the file is for groups of GPUs.

The table has for each point the fastest algorithm with its time, and how many
times as long the choices of the cost model and of the rules take. The two lines
below it are the scores: for how many points the chosen algorithm is within 10 %
of the best measured one.

Then it measures from how many bytes on results within a process are better
written past the caches: an all-reduce between two devices, and a look at its
results. That is in the file too. Several processes do not measure it: all at
once, they would take the memory's bandwidth from each other.

With --deadline, what takes longer ends all with an error, and no file is
written; it is for finding what hangs, as in `tutti perf`.

Sizes are as in `tutti perf`. The smallest stands for all below it, and the
largest for all above. Measure while nothing else runs.

Examples:
  tutti tune --output rules.json
  tutti tune all_reduce --layout 1x2,1x8,2x4 --factor 4 --output rules.json
  tutti launch --tasks 4 -- tune --output between.json
  tutti perf all_reduce --rules rules.json)";

// Algorithms that can be named, with or without a cost model: the same on all
// tasks.
std::vector<std::string> AlgorithmsFor(const TuneQuestion& question,
                                       const SelectionPolicy& policy) {
  std::vector<std::string> names;
  for (const auto& entry : policy.registry->List()) {
    SelectionRequest request = RequestFor(question, policy);
    request.implementation = entry.name;
    if (SelectImplementation(policy, request).ok()) {
      names.push_back(entry.name);
    }
  }
  return names;
}

// Adds the name of an algorithm or of a question to its error.
absl::Status Named(const std::string& name, const absl::Status& status,
                   const char* separator = ": ") {
  return absl::Status(status.code(),
                      absl::StrCat(name, separator, status.message()));
}

enum class Outcome : uint8_t { kServes, kRefuses, kFails };

Outcome OutcomeOf(const absl::Status& status) {
  if (status.ok()) return Outcome::kServes;
  return IsRefusal(status) ? Outcome::kRefuses : Outcome::kFails;
}

// Worst outcome of all tasks. Errors: those of Party::Combine().
absl::StatusOr<Outcome> AgreeOnOutcome(Party* party, Outcome mine) {
  auto worst = static_cast<int64_t>(mine);
  RETURN_IF_ERROR(party->Combine(ReductionKind::kMax, {&worst, 1}));
  return static_cast<Outcome>(worst);
}

// Measures points one after another. Points with the same layout use the same
// devices. In a cluster all tasks measure together. For one thread, which may
// block.
class Tuner {
 public:
  // Result of a question. Equal on all tasks, except for the wording of errors.
  struct Answer {
    TunedPoint point;
    std::map<std::string, absl::Status> refused;  // Skipped, and why.
  };

  // The parts of `environment` outlive the object.
  Tuner(const TuneOptions& options, const Environment& environment,
        PartyFactory make_party)
      : options_(options),
        environment_(environment),
        make_party_(std::move(make_party)) {}

  // Makes the party of a layout, unless it already is the current one.
  absl::Status SetLayout(const GroupLayout& layout) {
    if (runner_ != nullptr && layout_ == layout) return absl::OkStatus();
    RETURN_IF_ERROR(Leave(absl::OkStatus()));
    runner_ = nullptr;
    ASSIGN_OR_RETURN(auto party,
                     make_party_(layout.size(), layout.num_tasks()));
    layout_ = layout;
    runner_ = std::make_unique<PerfRunner>(
        environment_,
        PerfRunner::Options{.warmup = 1,
                            .iterations = options_.iterations,
                            .deadline = DurationOf(options_.deadline_seconds)},
        std::move(party));
    return absl::OkStatus();
  }

  // REQUIRES: the last SetLayout() has succeeded.
  Party& party() { return runner_->party(); }

  // Measures all algorithms that can be named. Skips those that refuse if
  // others succeed. Errors: also those of SetLayout().
  absl::StatusOr<Answer> Measure(const TuneQuestion& question) {
    RETURN_IF_ERROR(SetLayout(question.layout));
    const auto buffers = PerfBuffers::Create(
        question.workload, question.ranks, BufferOptions(), environment_.queue);
    RETURN_IF_ERROR(party().Agree(buffers.status()));
    Answer answer{.point = {.type = question.workload.spec.type,
                            .layout = question.layout,
                            .one_process = question.one_process(),
                            .bytes = BytesOf(question.workload)}};
    ASSIGN_OR_RETURN(const auto names,
                     FindServing(question, buffers->get(), &answer));
    for (TimesByAlgorithm* times :
         {&answer.point.to_choose, &answer.point.to_judge}) {
      ASSIGN_OR_RETURN(*times, MeasureRounds(names, buffers->get()));
    }
    return answer;
  }

  // Calls Leave() of the current party, if there is one.
  absl::Status Leave(const absl::Status& outcome) {
    return runner_ == nullptr ? outcome : party().Leave(outcome);
  }

 private:
  // Agrees on each algorithm: a task on which it succeeds may learn only here
  // that another task refused.
  absl::StatusOr<std::vector<std::string>> FindServing(
      const TuneQuestion& question, PerfBuffers* buffers, Answer* answer) {
    std::vector<std::string> serving;
    absl::Status refusal = absl::NotFoundError("no algorithm can serve");
    for (const std::string& name : AlgorithmsFor(question, party().policy())) {
      const absl::Status tried = runner_->Try(buffers, name);
      const auto outcome = AgreeOnOutcome(&party(), OutcomeOf(tried));
      if (!outcome.ok()) {
        return Named(name, tried.ok() ? outcome.status() : tried);
      }
      if (*outcome == Outcome::kServes) {
        serving.push_back(name);
        continue;
      }
      // Hides this task's refusal if another task failed.
      const bool counts = OutcomeOf(tried) == *outcome;
      const absl::Status why = party().Agree(counts ? tried : absl::OkStatus());
      if (*outcome == Outcome::kFails) return Named(name, why);
      answer->refused[name] = why;
      refusal = Named(name, why);
    }
    if (serving.empty()) return refusal;
    return serving;
  }

  // Measures rounds of all algorithms; returns the medians.
  absl::StatusOr<TimesByAlgorithm> MeasureRounds(
      const std::vector<std::string>& names, PerfBuffers* buffers) {
    std::map<std::string, std::vector<absl::Duration>> times;
    absl::Duration taken;  // Equal on all tasks, as their times are.
    for (int round = 0; WantsAnotherRound(options_, round, taken); ++round) {
      for (const std::string& name : names) {
        const auto measured = runner_->Measure(buffers, name);
        if (!measured.ok()) return Named(name, measured.status());
        auto& all = times[name];
        all.insert(all.end(), measured->times.begin(), measured->times.end());
        taken += absl::c_accumulate(measured->times, absl::Duration());
      }
    }
    TimesByAlgorithm medians;
    for (const auto& [name, all] : times) {
      medians[name] = absl::ToDoubleSeconds(Percentile(all, 50));
    }
    return medians;
  }

  const TuneOptions options_;
  const Environment environment_;
  const PartyFactory make_party_;
  GroupLayout layout_ = GroupLayout::Uniform(1, 1);
  std::unique_ptr<PerfRunner> runner_;
};

// Measures the questions; returns their points in the same order.
absl::StatusOr<std::vector<TunedPoint>> MeasureAll(
    const std::vector<TuneQuestion>& questions, Tuner* tuner,
    const Console& console) {
  std::vector<TunedPoint> points;
  Progress progress(console);
  for (const TuneQuestion& question : questions) {
    const std::string what = Describe(question);
    progress.Show(absl::StrCat("measuring ", points.size() + 1, " of ",
                               questions.size(), ": ", what, " ..."));
    auto answer = tuner->Measure(question);
    if (!answer.ok()) return Named(what, answer.status(), ", ");
    for (const auto& [name, why] : answer->refused) {
      progress.Clear();
      console.err << ErrorLine(absl::Status(
          why.code(),
          absl::StrCat("skipped ", name, " for ", what, ": ", why.message())));
    }
    points.push_back(std::move(answer->point));
  }
  return points;
}

// Choices of the cost model or of the rules, and their score.
struct Score {
  std::vector<std::string> cells;
  int num_near = 0;

  void Add(const TimesByAlgorithm& times, const std::string& chosen) {
    const double ratio = RatioToBest(times, chosen);
    if (ratio <= kNearBest) ++num_near;
    cells.push_back(absl::StrFormat("%s %.2f", chosen, ratio));
  }

  std::string Line(absl::string_view who) const {
    return absl::StrFormat(
        "%s: chosen algorithm within 10 %% of the best measured for %d of %d "
        "points (%.0f %%)\n",
        who, num_near, cells.size(),
        100.0 * num_near /
            std::max<double>(1, static_cast<double>(cells.size())));
  }
};

std::vector<std::string> Cells(const TunedPoint& point) {
  const std::string fastest = Fastest(point.to_judge);
  return {std::string(Name(point.type)), point.layout.ToString(),
          absl::StrCat(point.bytes), fastest,
          absl::StrFormat("%.1f", point.to_judge.at(fastest) * 1e6)};
}

// Table of points, and the scores of the cost model and of the rules.
absl::StatusOr<std::string> Report(
    const std::vector<TuneQuestion>& questions,
    const std::vector<TunedPoint>& points, const SelectionPolicy& policy,
    const std::shared_ptr<const SelectionRules>& rules) {
  SelectionPolicy with_rules = policy;
  with_rules.rules = rules;
  Score by_model;
  Score by_rules;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < points.size(); ++i) {
    const SelectionRequest request = RequestFor(questions[i], policy);
    ASSIGN_OR_RETURN(const auto model, SelectImplementation(policy, request));
    ASSIGN_OR_RETURN(const auto ruled,
                     SelectImplementation(with_rules, request));
    by_model.Add(points[i].to_judge, model.name);
    by_rules.Add(points[i].to_judge, ruled.name);
    rows.push_back(Cells(points[i]));
    rows.back().push_back(by_model.cells.back());
    rows.back().push_back(by_rules.cells.back());
  }
  return absl::StrCat(FormatTable({{"collective", Align::kLeft},
                                   {"layout", Align::kLeft},
                                   {"bytes"},
                                   {"fastest", Align::kLeft},
                                   {"p50 [us]"},
                                   {"model, times as long", Align::kLeft},
                                   {"rules, times as long", Align::kLeft}},
                                  rows),
                      by_model.Line("model"), by_rules.Line("rules"));
}

std::string StoresText(const std::vector<StoreTimes>& stores) {
  std::vector<std::vector<std::string>> rows;
  for (const StoreTimes& size : stores) {
    rows.push_back(
        {absl::StrCat(size.bytes),
         absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(size.to_caches)),
         absl::StrFormat("%.1f",
                         absl::ToDoubleMicroseconds(size.past_caches))});
  }
  return absl::StrCat("\n",
                      FormatTable({{"inputs and outputs [bytes]"},
                                   {"to the caches [us]"},
                                   {"past them [us]"}},
                                  rows),
                      "results are written past the caches from ",
                      FormatBytes(PastCachesFrom(stores)),
                      " bytes of inputs and outputs in all\n");
}

void AddOptions(CLI::App* app, TuneOptions* options) {
  app->add_option("COLLECTIVE", options->collectives,
                  "any of all_reduce, all_gather, reduce_scatter,\n"
                  "broadcast, all_to_all, permute, barrier, reduce,\n"
                  "gather, scatter, scan, exscan [default: the first\n"
                  "five]")
      ->option_text(" ");
  app->add_option("--output", options->output, "the file to write")
      ->required()
      ->check(NotEmpty())
      ->option_text("FILE");
  app->add_option("--layout", options->layouts,
                  "tasks x devices of each, all in this process\n"
                  "[default: 1x2,1x4,1x8] (not in a cluster)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("TxD,...");
  AddDeviceOption(app, &options->device_type);
  AddSweepOptions(app, &options->sweep);
  app->add_option("--rounds", options->rounds,
                  "how often algorithms take turns [default: 5,\n"
                  "and up to 25 while they take less than 0.5 s]")
      ->transform(WholeNumber(1, 1 << 20))
      ->option_text("N");
  app->add_option("--iterations", options->iterations,
                  "timed, of each algorithm in each round\n"
                  "[default: 4]")
      ->transform(WholeNumber(1, 1 << 20))
      ->option_text("N");
  app->add_option("--deadline", options->deadline_seconds,
                  "fail if an iteration takes longer than so many\n"
                  "seconds, and say who waits for whom [default: none]")
      ->check(PositiveSeconds())
      ->option_text("SECONDS");
}

// Checks options that depend on each other.
absl::Status CheckCommandLine(const CLI::App& app, const ClusterWords& words,
                              TuneOptions* options) {
  const absl::Status taken = TakeOwnCluster(words, &options->cluster);
  if (!taken.ok() || !options->cluster.has_value()) return taken;
  const int num_tasks = options->cluster->cluster.num_tasks();
  const int num_devices = options->cluster->devices_per_task;
  if (num_tasks == 1 && num_devices > 1) {
    return UsageError(absl::StrCat(
        "--devices-per-task ", num_devices, " does not go with a single task, ",
        "which measures the layouts of --layout: wanted --layout 1x",
        num_devices));
  }
  if (num_tasks == 1) {
    options->cluster.reset();
    return absl::OkStatus();
  }
  options->layouts = {absl::StrCat(num_tasks, "x", num_devices)};
  return CheckOptionsOfCluster(app, options->cluster, {"--layout"});
}

// Checks everything that can be checked before measuring. Sets `output` on the
// task that reports.
absl::Status Prepare(const TuneOptions& options,
                     const std::vector<TuneQuestion>& questions, bool reports,
                     std::unique_ptr<OutputFile>* output) {
  const absl::Status fits = CheckMemory(questions);
  if (!fits.ok() || !reports) return fits;
  ASSIGN_OR_RETURN(*output, OutputFile::Create(options.output));
  return absl::OkStatus();
}

// Measures stores of CPU devices, but not in a cluster, where several processes
// share the memory.
absl::StatusOr<std::vector<StoreTimes>> MeasureStoresIfAlone(
    const TuneOptions& options, const Environment& environment) {
  if (options.cluster.has_value() || options.device_type != "CPU") {
    return std::vector<StoreTimes>();
  }
  return MeasureStores(environment,
                       {.max_bytes = options.max_store_bytes,
                        .deadline = DurationOf(options.deadline_seconds)});
}

// Prints the report and writes the file. `stores` is empty if they were not
// measured.
absl::Status Report(const std::vector<TuneQuestion>& questions,
                    const std::vector<TunedPoint>& points,
                    const std::vector<StoreTimes>& stores,
                    const SelectionPolicy& policy, OutputFile* output,
                    const Console& console) {
  SelectionRules rules = RulesFrom(points);
  if (!stores.empty()) rules.past_caches_from_bytes = PastCachesFrom(stores);
  const std::string text = RulesFileText(rules);
  // Parses the text as readers of the file do.
  ASSIGN_OR_RETURN(const auto read,
                   ParseRulesFile(text, "the new rules", *policy.registry));
  ASSIGN_OR_RETURN(const auto report, Report(questions, points, policy, read));
  console.out << report << (stores.empty() ? "" : StoresText(stores))
              << std::flush;
  return output->Write(text);
}

// Runs the command once a party exists.
absl::Status Tune(const TuneOptions& options, const Environment& environment,
                  const std::vector<TuneQuestion>& questions, Tuner* tuner,
                  const Console& console) {
  const bool reports = tuner->party().reports();
  std::unique_ptr<OutputFile> output;
  RETURN_IF_ERROR(
      tuner->party().Agree(Prepare(options, questions, reports, &output)));
  ASSIGN_OR_RETURN(const auto points, MeasureAll(questions, tuner, console));
  ASSIGN_OR_RETURN(const auto stores,
                   MeasureStoresIfAlone(options, environment));
  // Measuring may have made another party.
  return tuner->party().Agree(reports ? Report(questions, points, stores,
                                               tuner->party().policy(),
                                               output.get(), console)
                                      : absl::OkStatus());
}

}  // namespace

absl::Status TuneRules(const TuneOptions& options,
                       const Environment& environment,
                       const PartyFactory& make_party, const Console& console) {
  ASSIGN_OR_RETURN(const auto questions, PlanTuning(options));
  Tuner tuner(options, environment, make_party);
  RETURN_IF_ERROR(tuner.SetLayout(questions.front().layout));
  std::ostream nowhere(nullptr);
  const Console silent{nowhere, nowhere};
  return tuner.Leave(Tune(options, environment, questions, &tuner,
                          tuner.party().reports() ? console : silent));
}

Command AddTuneCommand(CLI::App* app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune =
      app->add_subcommand("tune", "Measures this machine, to choose by that.");
  tune->footer(kTuneHelp);
  AddOptions(tune, options.get());
  auto words = std::make_shared<ClusterWords>();
  AddClusterOptions(tune, words.get());
  return {.app = tune,
          .run =
              [options, words, tune](const Console& console) {
                RETURN_IF_ERROR(CheckCommandLine(*tune, *words, options.get()));
                const DefaultEnvironment environment;
                ASSIGN_OR_RETURN(
                    const auto make_devices,
                    DeviceMakerFor(options->device_type, environment.get()));
                return TuneRules(*options, environment.get(),
                                 PartyOf(environment.get(),
                                         {.cluster = options->cluster,
                                          .command = SharedCommand(*tune),
                                          .make_devices = make_devices},
                                         console),
                                 console);
              },
          .cluster = {options, &options->cluster}};
}

}  // namespace tutti
