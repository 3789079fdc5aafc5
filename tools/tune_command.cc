#include "tools/tune_command.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "framework/collective_request.h"
#include "framework/default_environment.h"
#include "framework/selection.h"
#include "runtime/rules_file.h"
#include "tools/cluster_flags.h"
#include "tools/cluster_options.h"
#include "tools/collective_spec.h"
#include "tools/exit_status.h"
#include "tools/option_values.h"
#include "tools/output_file.h"
#include "tools/party.h"
#include "tools/perf_buffers.h"
#include "tools/perf_row.h"
#include "tools/perf_runner.h"
#include "tools/progress.h"
#include "tools/sizes.h"
#include "tools/store_calibration.h"
#include "tools/text_table.h"
#include "tools/tuning.h"
#include "tools/workload.h"
#include "tools/workload_options.h"

namespace tutti {
namespace {

constexpr char kHelp[] =
    R"(Measures every algorithm that can serve, for each collective, layout and size,
with all ranks in this process, and writes a file of rules for --rules and
TUTTI_RULES of `tutti run`, `tutti perf` and `tutti explain`. The file is JSON,
made to be edited: docs/rules.md. Whether it can be written is looked at first.

Algorithms take turns, round after round, and are measured as by `tutti perf`;
what counts is the median. All is measured twice: the rules follow from the
first time, and the scores from the second, so that the rules are not judged by
the noise that they were made from. The rules are as few as keep each point
within 5 % of its best.

The table has for each point the fastest algorithm with its time, and how many
times as long the choices of the cost model and of the rules take. The two lines
below it are the scores: for how many points the chosen algorithm is within 10 %
of the best measured one.

Then it measures from how many bytes on results within a process are better
written past the caches: an all-reduce between two devices, and a look at its
results. That is in the file too.

With --deadline, what takes longer ends all with an error, and no file is
written; it is for finding what hangs, as in `tutti perf`.

Sizes are as in `tutti perf`. The smallest stands for all below it, and the
largest for all above. Measure while nothing else runs.

Examples:
  tutti tune --output rules.json
  tutti tune all_reduce --layout 1x2,1x8,2x4 --factor 4 --output rules.json
  tutti perf all_reduce --rules rules.json)";

// A point before it is measured.
struct Question {
  Workload workload;
  GroupLayout layout;
};

SelectionRequest RequestFor(const Question& question) {
  const CollectiveSpec& spec = question.workload.spec;
  return {.type = spec.type,
          .layout = question.layout,
          .device_type = "CPU",
          .bytes = BytesOf(question.workload),
          .one_process = true,
          .merge_op = spec.merge_op,
          .final_op = spec.final_op};
}

std::string Describe(const Question& question) {
  return absl::StrCat(ToString(question.workload.spec), " of ",
                      FormatBytes(BytesOf(question.workload)), " bytes on ",
                      question.layout.ToString());
}

// Those that could be named, cost model or not.
std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       const Question& question) {
  std::vector<std::string> names;
  for (const CollectiveRegistry::Entry& entry : registry.List()) {
    SelectionRequest request = RequestFor(question);
    request.implementation = entry.name;
    if (SelectImplementation(registry, request).ok()) {
      names.push_back(entry.name);
    }
  }
  return names;
}

absl::StatusOr<GroupLayout> ParseTunedLayout(const std::string& text) {
  auto layout = ParseLayout(text, kMaxGroupSize);
  if (!layout.ok()) return layout;
  if (layout->size() % layout->num_tasks() == 0 &&
      *layout == GroupLayout::Uniform(layout->num_tasks(),
                                      layout->size() / layout->num_tasks())) {
    return layout;
  }
  return UsageError(
      absl::StrCat("--layout ", text, ": wanted as many devices on each task"));
}

// Of one collective on one layout, by size.
absl::Status AddQuestions(const Workload& workload, const GroupLayout& layout,
                          const std::vector<int64_t>& sizes,
                          std::vector<Question>* questions) {
  for (Workload& sized : SweptWorkloads(workload, sizes)) {
    const absl::Status fits = PerfBuffers::CheckMemory(
        sized, {.count = sized.group_size}, BufferOptions());
    if (!fits.ok()) return fits;
    questions->push_back({std::move(sized), layout});
  }
  return absl::OkStatus();
}

// Without what an earlier one repeats.
std::vector<std::string> Once(const std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (const std::string& word : words) {
    if (!absl::c_linear_search(once, word)) once.push_back(word);
  }
  return once;
}

// All, before time goes into any; those of one layout follow each other.
absl::StatusOr<std::vector<Question>> PlanTuning(const TuneOptions& options) {
  const auto sizes = SweptSizes(options.sweep);
  if (!sizes.ok()) return sizes.status();
  std::vector<Question> questions;
  std::vector<GroupLayout> layouts;
  for (const std::string& text : options.layouts) {
    const auto layout = ParseTunedLayout(text);
    if (!layout.ok()) return layout.status();
    // One may be written in several ways.
    if (absl::c_linear_search(layouts, *layout)) continue;
    layouts.push_back(*layout);
    for (const std::string& collective : Once(options.collectives)) {
      const auto workload = ParseWorkload({.collective = collective},
                                          options.sweep.dtype, layout->size());
      if (!workload.ok()) return workload.status();
      const absl::Status added =
          AddQuestions(*workload, *layout, *sizes, &questions);
      if (!added.ok()) return added;
    }
  }
  return questions;
}

// Measures one point after another, those of a layout on the same devices.
class Tuner {
 public:
  Tuner(const TuneOptions& options, const Environment& environment,
        const CollectiveRegistry& registry)
      : options_(options), environment_(environment), registry_(registry) {}

  absl::StatusOr<TunedPoint> Measure(const Question& question) {
    absl::Status status = SetLayout(question.layout);
    if (!status.ok()) return status;
    const auto buffers = PerfBuffers::Create(
        question.workload, {.count = question.workload.group_size},
        BufferOptions(), environment_.queue);
    if (!buffers.ok()) return buffers.status();
    TunedPoint point{.type = question.workload.spec.type,
                     .layout = question.layout,
                     .bytes = BytesOf(question.workload)};
    const auto names = AlgorithmsFor(registry_, question);
    status = MeasureAll(names, buffers->get(), &point.to_choose);
    if (status.ok()) {
      status = MeasureAll(names, buffers->get(), &point.to_judge);
    }
    if (!status.ok()) return status;
    return point;
  }

 private:
  absl::Status SetLayout(const GroupLayout& layout) {
    if (runner_ != nullptr && layout_ == layout) return absl::OkStatus();
    runner_ = nullptr;
    auto party = LocalParty(environment_)(layout.size(), layout.num_tasks());
    if (!party.ok()) return party.status();
    layout_ = layout;
    runner_ = std::make_unique<PerfRunner>(
        environment_,
        PerfRunner::Options{.warmup = 1,
                            .iterations = options_.iterations,
                            .deadline = DurationOf(options_.deadline_seconds)},
        *std::move(party));
    return absl::OkStatus();
  }

  absl::Status MeasureAll(const std::vector<std::string>& names,
                          PerfBuffers* buffers, TimesByAlgorithm* medians) {
    std::map<std::string, std::vector<absl::Duration>> times;
    for (int round = 0; round < options_.rounds; ++round) {
      for (const std::string& name : names) {
        const auto measured = runner_->Measure(buffers, name);
        if (!measured.ok()) {
          return absl::Status(
              measured.status().code(),
              absl::StrCat(name, ": ", measured.status().message()));
        }
        auto& all = times[name];
        all.insert(all.end(), measured->times.begin(), measured->times.end());
      }
    }
    for (const auto& [name, all] : times) {
      (*medians)[name] = absl::ToDoubleSeconds(Percentile(all, 50));
    }
    return absl::OkStatus();
  }

  const TuneOptions& options_;
  const Environment environment_;
  const CollectiveRegistry& registry_;
  GroupLayout layout_ = GroupLayout::Uniform(1, 1);
  std::unique_ptr<PerfRunner> runner_;
};

absl::StatusOr<std::vector<TunedPoint>> MeasureAll(
    const std::vector<Question>& questions, Tuner* tuner,
    const Console& console) {
  std::vector<TunedPoint> points;
  Progress progress(console);
  for (const Question& question : questions) {
    const std::string what = Describe(question);
    progress.Show(absl::StrCat("measuring ", points.size() + 1, " of ",
                               questions.size(), ": ", what, " ..."));
    auto point = tuner->Measure(question);
    if (!point.ok()) {
      return absl::Status(point.status().code(),
                          absl::StrCat(what, ", ", point.status().message()));
    }
    points.push_back(*std::move(point));
  }
  return points;
}

// One side's choices, and how they did.
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
  const auto fastest = std::min_element(
      point.to_judge.begin(), point.to_judge.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return {std::string(Name(point.type)), point.layout.ToString(),
          absl::StrCat(point.bytes), fastest->first,
          absl::StrFormat("%.1f", fastest->second * 1e6)};
}

// The table, and the scores of the model and of the rules.
absl::StatusOr<std::string> Report(
    const std::vector<Question>& questions,
    const std::vector<TunedPoint>& points, const CollectiveRegistry& registry,
    const std::shared_ptr<const SelectionRules>& rules) {
  Score by_model;
  Score by_rules;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < points.size(); ++i) {
    const SelectionRequest request = RequestFor(questions[i]);
    const auto model = SelectImplementation(registry, request);
    if (!model.ok()) return model.status();
    const auto ruled =
        SelectImplementation({.registry = &registry, .rules = rules}, request);
    if (!ruled.ok()) return ruled.status();
    by_model.Add(points[i].to_judge, model->name);
    by_rules.Add(points[i].to_judge, ruled->name);
    rows.push_back(Cells(points[i]));
    rows.back().push_back(by_model.cells.back());
    rows.back().push_back(by_rules.cells.back());
  }
  TextTable table({{"collective", Align::kLeft},
                   {"layout", Align::kLeft},
                   {"bytes"},
                   {"fastest", Align::kLeft},
                   {"p50 [us]"},
                   {"model, times as long", Align::kLeft},
                   {"rules, times as long", Align::kLeft}});
  table.Fit(rows);
  std::string text = table.Header();
  for (const auto& row : rows) absl::StrAppend(&text, table.Row(row));
  return absl::StrCat(text, by_model.Line("model"), by_rules.Line("rules"));
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
  TextTable table({{"inputs and outputs [bytes]"},
                   {"to the caches [us]"},
                   {"past them [us]"}});
  table.Fit(rows);
  std::string text = absl::StrCat("\n", table.Header());
  for (const auto& row : rows) absl::StrAppend(&text, table.Row(row));
  return absl::StrCat(text, "results are written past the caches from ",
                      FormatBytes(PastCachesFrom(stores)),
                      " bytes of inputs and outputs in all\n");
}

void AddOptions(CLI::App* app, TuneOptions* options) {
  app->add_option("COLLECTIVE", options->collectives,
                  "any of all_reduce, all_gather, reduce_scatter,\n"
                  "broadcast, all_to_all, permute, barrier, reduce,\n"
                  "gather, scatter [default: the first five]")
      ->option_text(" ");
  app->add_option("--output", options->output, "the file to write")
      ->required()
      ->check(NotEmpty())
      ->option_text("FILE");
  app->add_option("--layout", options->layouts,
                  "tasks x devices of each, all in this process\n"
                  "[default: 1x2,1x4,1x8]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("TxD,...");
  AddSweepOptions(app, &options->sweep);
  app->add_option("--rounds", options->rounds,
                  "how often algorithms take turns [default: 5]")
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

// Processes of one mpirun would slow each other down and write one file.
absl::Status CheckAlone() {
  std::optional<ClusterOptions> cluster;
  const absl::Status status = TakeOwnCluster({}, &cluster);
  if (!status.ok()) return status;
  if (!cluster.has_value() || cluster->cluster.num_tasks() == 1) {
    return absl::OkStatus();
  }
  return UsageError(
      absl::StrCat("tune measures within one process, and mpirun has started ",
                   cluster->cluster.num_tasks(), ": start it without mpirun"));
}

}  // namespace

absl::Status TuneRules(const TuneOptions& options,
                       const Environment& environment,
                       const CollectiveRegistry& registry,
                       const Console& console) {
  const auto questions = PlanTuning(options);
  if (!questions.ok()) return questions.status();
  const auto output = OutputFile::Create(options.output);
  if (!output.ok()) return output.status();
  Tuner tuner(options, environment, registry);
  const auto points = MeasureAll(*questions, &tuner, console);
  if (!points.ok()) return points.status();
  const auto stores = MeasureStores(
      environment, {.max_bytes = options.max_store_bytes,
                    .deadline = DurationOf(options.deadline_seconds)});
  if (!stores.ok()) return stores.status();
  SelectionRules measured = RulesFrom(*points);
  measured.past_caches_from_bytes = PastCachesFrom(*stores);
  const std::string text = RulesFileText(measured);
  // As whoever uses the file will read it.
  const auto rules = ParseRulesFile(text, options.output, registry);
  if (!rules.ok()) return rules.status();
  const auto report = Report(*questions, *points, registry, *rules);
  if (!report.ok()) return report.status();
  console.out << *report << StoresText(*stores) << std::flush;
  return (*output)->Write(text);
}

Command AddTuneCommand(CLI::App* app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune =
      app->add_subcommand("tune", "Measures this machine, to choose by that.");
  tune->footer(kHelp);
  AddOptions(tune, options.get());
  return {.app = tune, .run = [options](const Console& console) {
            const absl::Status alone = CheckAlone();
            if (!alone.ok()) return alone;
            const DefaultEnvironment environment;
            return TuneRules(*options, environment.get(),
                             CollectiveRegistry::Global(), console);
          }};
}

}  // namespace tutti
