#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/base/console.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/json_value.h"
#include "tools/base/text.h"
#include "tools/cluster/cluster_mode.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/gpus.h"
#include "tools/commands/collective_commands.h"
#include "tools/measure/copy_bandwidth.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_plan.h"
#include "tools/measure/perf_runner.h"
#include "tools/request/request_options.h"
#include "tutti/collective.h"

namespace tutti {
namespace {

constexpr char kPerfHelp[] =
    R"(bytes and count are those of the whole buffer: what each rank has in
all_reduce, broadcast, permute, reduce, scan and exscan; all blocks together in
all_gather, gather, reduce_scatter, scatter and all_to_all, rounded down to a
multiple of the number of ranks, or up to one element for each. A barrier has no
data, and takes no option that speaks of them.

The time of an iteration is that of the slowest rank, all ranks started
together from one thread. p50 and p99 are over iterations: times that were
measured, none in between. algbw is bytes / p50; busbw is algbw times
2(n-1)/n for all_reduce, (n-1)/n where there are blocks and 1 else, which makes
group sizes comparable. GB are 10^9 bytes.

limit is the least time that memory needs, in percent of p50: every input read
once and every output written once (2 x ranks x bytes of an all_reduce), at the
bandwidth of a copy with non-temporal stores from and to 128 MiB, by as many
threads as there are processors. It is that of the fastest copy, of nine before
the first row and three after each, so that rows compare: in the table the
fastest so far (the last line says how fast it was at the end and by the first
row), in JSON the fastest of all. More than 100 % means that caches took part.
Where the ranks are in several processes there is no limit, "-".

Buffers take turns, and are rewritten past the caches between iterations, so
that no result is cache-hot by accident. --hot keeps one set, written once (in
place, results then pile up; with --check it is rewritten through the caches).

--check compares every timed iteration, bit for bit, with a reference that
reduces one element after the other. Data are random, and such that no order
of summation rounds: whole numbers in sums of floats, powers of two in
products.

With --deadline each rank sets an alarm and takes it back, which the times
include: a microsecond or two for each. Give it where something may hang, and
leave it out to measure small sizes.

--json prints a list with an object for each row:
  collective, algorithm        names
  bytes, count                 of the whole buffer
  dtype, reduction             names; null of a barrier, and where nothing is
                               reduced
  p50_us, p99_us               microseconds
  algbw, busbw                 GB/s, 10^9 bytes per second
  wrong                        elements, over all ranks and timed iterations;
                               null without --check, and of a barrier
  limit_share                  a fraction: 1 is as fast as memory allows, for
                               all rows by the fastest copy of the run; null of
                               a barrier, and where the ranks are in several
                               processes

An algorithm of --algorithm all that refuses the first size is left out with a
line on standard error; any other failure ends the run, and the list.

Examples:
  tutti perf all_reduce --check
  tutti perf all_reduce --algorithm all --min-bytes 1M --max-bytes 64M
  tutti perf all_gather --devices 16 --tasks 4 --dtype bfloat16 --json
  tutti perf barrier --devices 64)";

constexpr int kCopiesBefore = 9;
constexpr int kCopiesPerRow = 3;

// Prints rows: each row of a table at once, or JSON at the end.
class Report {
 public:
  // `bandwidth` outlives the object; null if no row has a limit.
  Report(const Console& console, bool json, const CopyBandwidth* bandwidth)
      : console_(console), json_(json), bandwidth_(bandwidth) {}
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // Ends the list or the table, also after an error.
  ~Report() {
    if (json_) {
      PrintJson();
    } else if (bandwidth_ != nullptr && !rows_.empty()) {
      PrintBandwidth();
    }
  }

  void Add(const PerfRow& row) {
    wrong_ += row.wrong.value_or(0);
    if (rows_.empty()) {
      first_bandwidth_ = Bandwidth();
      if (!json_) console_.out << table_.Header();
    }
    rows_.push_back(row);
    if (json_) return;
    console_.out << table_.Row(Cells(row, Bandwidth())) << std::flush;
  }

  bool empty() const { return rows_.empty(); }
  int64_t wrong() const { return wrong_; }

 private:
  double Bandwidth() const {
    return bandwidth_ == nullptr ? 0 : bandwidth_->best();
  }

  void PrintJson() const {
    auto rows = Json::array();
    for (const PerfRow& row : rows_) rows.push_back(ToJson(row, Bandwidth()));
    console_.out << rows.dump(2) << "\n";
  }

  void PrintBandwidth() const {
    console_.out << absl::StrFormat(
        "limit: 100 %% is the fastest copy, %.2f GB/s (%.2f GB/s by the first "
        "row)\n",
        Bandwidth() / 1e9, first_bandwidth_ / 1e9);
  }

  const Console& console_;
  const bool json_;
  const CopyBandwidth* const bandwidth_;
  const TextTable table_ = PerfTable();
  std::vector<PerfRow> rows_;
  double first_bandwidth_ = 0;
  int64_t wrong_ = 0;
};

BufferOptions BufferOptionsOf(const PerfOptions& options) {
  return {.in_place = options.in_place,
          .hot = options.hot,
          .check = options.check,
          .seed = options.seed};
}

RankRange RangeOf(const Party& party) {
  return {party.first_rank(), party.num_local()};
}

// Checks that every size fits into memory, before any is measured.
absl::Status CheckMemory(const PerfOptions& options, const PerfPlan& plan,
                         RankRange range) {
  for (const Workload& workload : plan.workloads) {
    RETURN_IF_ERROR(
        PerfBuffers::CheckMemory(workload, range, BufferOptionsOf(options)));
  }
  return absl::OkStatus();
}

// State of the measurement, and its rows.
class Sweep {
 public:
  // `bandwidth` is null if memory sets no limit.
  Sweep(const PerfOptions& options, const PerfPlan& plan, PerfRunner* runner,
        CopyBandwidth* bandwidth, const Console& console)
      : options_(options),
        plan_(plan),
        runner_(runner),
        bandwidth_(bandwidth),
        console_(console),
        report_(console, options.json, bandwidth) {}

  absl::Status Run(WorkQueue* queue) {
    const BufferOptions buffer_options = BufferOptionsOf(options_);
    if (bandwidth_ != nullptr) bandwidth_->Measure(kCopiesBefore);
    for (const Workload& workload : plan_.workloads) {
      ASSIGN_OR_RETURN(auto buffers,
                       PerfBuffers::Create(workload, RangeOf(runner_->party()),
                                           buffer_options, queue));
      RETURN_IF_ERROR(RunSize(buffers.get()));
      if (report_.empty()) return last_refusal_;
    }
    if (report_.wrong() == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        report_.wrong(),
        report_.wrong() == 1 ? " element was wrong" : " elements were wrong"));
  }

 private:
  absl::Status RunSize(PerfBuffers* buffers) {
    for (const std::string& algorithm : plan_.algorithms) {
      if (skipped_.contains(algorithm)) continue;
      const absl::Status status = RunRow(buffers, algorithm);
      if (status.ok()) {
        measured_.insert(algorithm);
      } else if (MaySkip(algorithm, status)) {
        Skip(algorithm, status);
      } else {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunRow(PerfBuffers* buffers, const std::string& algorithm) {
    const std::string row = absl::StrCat(
        algorithm.empty() ? "the library's choice" : algorithm, " with ",
        FormatBytes(BytesOf(buffers->workload())), " bytes");
    Progress progress(console_);
    progress.Show(absl::StrCat("measuring ", row, " ..."));
    const auto measurement = runner_->Measure(buffers, algorithm);
    if (absl::IsDeadlineExceeded(measurement.status())) {
      return absl::DeadlineExceededError(
          absl::StrCat(row, ": ", measurement.status().message()));
    }
    if (!measurement.ok()) return measurement.status();
    if (bandwidth_ != nullptr) bandwidth_->Measure(kCopiesPerRow);
    progress.Clear();
    report_.Add(MakePerfRow(buffers->workload(), *measurement));
    if (console_.out || !runner_->party().reports()) return absl::OkStatus();
    // Stops here, since later rows could not be printed.
    return OutputLostError();
  }

  // Allows a skip only before the first row: an algorithm that ran one size
  // must run all.
  bool MaySkip(const std::string& algorithm, const absl::Status& status) const {
    return plan_.may_skip && IsRefusal(status) &&
           !measured_.contains(algorithm);
  }

  void Skip(const std::string& algorithm, const absl::Status& status) {
    skipped_.insert(algorithm);
    last_refusal_ = status;
    console_.err << ErrorLine(absl::Status(
        status.code(),
        absl::StrCat("skipped ", algorithm, ": ", status.message())));
  }

  const PerfOptions& options_;
  const PerfPlan& plan_;
  PerfRunner* const runner_;
  CopyBandwidth* const bandwidth_;
  const Console& console_;
  Report report_;
  std::set<std::string> measured_;  // Algorithms with a row.
  std::set<std::string> skipped_;   // Algorithms without any row.
  absl::Status last_refusal_;
};

void AddOptions(CLI::App* app, PerfOptions* options) {
  AddCollectiveOptions(app, &options->collective);
  app->add_option("--devices", options->devices,
                  "number of ranks [default: 8] (not in a cluster)")
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  app->add_option("--tasks", options->tasks,
                  "spread the ranks over N tasks: algorithms that send\n"
                  "see them as processes [default: 1]\n"
                  "(not in a cluster)")
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  AddSweepOptions(app, &options->sweep);
  app->add_option("--algorithm", options->algorithms,
                  "registered names (see `tutti info`); all: every\n"
                  "one that can [default: the library chooses]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("all|NAME,...");
  AddChoiceOptions(app, &options->choice);
  AddRankListOption(app, &options->choice);
}

void AddMeasuringOptions(CLI::App* app, PerfOptions* options) {
  app->add_option("--iterations", options->iterations,
                  "timed, per row [default: 20]")
      ->transform(WholeNumber(1, 1 << 30))
      ->option_text("N");
  app->add_option("--warmup", options->warmup,
                  "iterations before those [default: 3]")
      ->transform(WholeNumber(0, 1 << 30))
      ->option_text("N");
  app->add_option("--deadline", options->deadline_seconds,
                  "fail if an iteration takes longer than so many\n"
                  "seconds, and say who waits for whom [default: none]")
      ->check(PositiveSeconds())
      ->option_text("SECONDS");
  app->add_flag("--check", options->check,
                "count wrong elements; exit status 1 if any");
  app->add_option("--seed", options->seed, "of the data [default: 1]")
      ->transform(WholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->option_text("N");
  app->add_flag("--in-place", options->in_place,
                "outputs are the inputs, or blocks of them");
  app->add_flag("--hot", options->hot, "let buffers stay in the caches");
  app->add_flag("--json", options->json, "print a JSON list of rows");
}

// Checks options that depend on each other.
absl::Status CheckCommandLine(const CLI::App& app, const ClusterWords& words,
                              PerfOptions* options) {
  RETURN_IF_ERROR(CheckOptionsOfBarrier(
      app, options->collective,
      {"--bytes", "--min-bytes", "--max-bytes", "--factor", "--dtype",
       "--check", "--seed", "--in-place", "--hot"}));
  return TakeRanksOfCluster(app, words, options);
}

}  // namespace

absl::Status MeasureCollective(const PerfOptions& options,
                               const Environment& environment, int num_workers,
                               const PartyFactory& make_party,
                               const Console& console) {
  ASSIGN_OR_RETURN(const auto plan,
                   PlanPerf(options, CollectiveRegistry::Global()));
  ASSIGN_OR_RETURN(auto party, make_party(options.devices, options.tasks));
  const absl::Status fits =
      party->Agree(CheckMemory(options, plan, RangeOf(*party)));
  if (!fits.ok()) return party->Leave(fits);
  const bool is_alone = party->num_local() == party->num_ranks();
  std::ostream nowhere(nullptr);
  const Console silent{nowhere, nowhere};
  const Console& shown = party->reports() ? console : silent;
  PerfRunner runner(environment,
                    {.warmup = options.warmup,
                     .iterations = options.iterations,
                     .check = options.check,
                     .deadline = DurationOf(options.deadline_seconds),
                     .determinism = options.choice.determinism,
                     .rank_list = options.choice.rank_list},
                    std::move(party));
  const CollectiveType type = plan.workloads.front().spec.type;
  const bool is_on_host = options.choice.device_type == "CPU";
  if (type == CollectiveType::kBarrier || !is_alone || !is_on_host) {
    return runner.party().Leave(
        Sweep(options, plan, &runner, /*bandwidth=*/nullptr, shown)
            .Run(environment.queue));
  }
  ASSIGN_OR_RETURN(auto bandwidth,
                   CopyBandwidth::Create(environment, num_workers));
  return Sweep(options, plan, &runner, &bandwidth, shown)
      .Run(environment.queue);
}

Command AddPerfCommand(CLI::App* app) {
  auto options = std::make_shared<PerfOptions>();
  CLI::App* perf = app->add_subcommand(
      "perf", "Measures a collective over a range of sizes.");
  perf->footer(kPerfHelp);
  AddOptions(perf, options.get());
  AddMeasuringOptions(perf, options.get());
  auto words = std::make_shared<ClusterWords>();
  AddClusterOptions(perf, words.get());
  return {
      .app = perf,
      .run =
          [options, words, perf](const Console& console) {
            RETURN_IF_ERROR(CheckCommandLine(*perf, *words, options.get()));
            ASSIGN_OR_RETURN(const auto rules,
                             TakeRules(options->choice, EnvironmentVariable,
                                       CollectiveRegistry::Global()));
            const int num_workers = std::max(
                1, static_cast<int>(std::thread::hardware_concurrency()));
            const DefaultEnvironment environment(num_workers);
            ASSIGN_OR_RETURN(
                const auto make_devices,
                DeviceMakerFor(options->choice.device_type, environment.get()));
            return MeasureCollective(*options, environment.get(), num_workers,
                                     PartyOf(environment.get(),
                                             {.cluster = options->cluster,
                                              .command = SharedCommand(*perf),
                                              .rules = rules,
                                              .make_devices = make_devices},
                                             console),
                                     console);
          },
      .cluster = {options, &options->cluster}};
}

}  // namespace tutti
