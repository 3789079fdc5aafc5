#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status_macros.h"
#include "schedule/simulate/cluster_model.h"
#include "schedule/simulate/lower_bound.h"
#include "schedule/simulate/planned_outline.h"
#include "schedule/simulate/simulator.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/base/json_value.h"
#include "tools/base/text.h"
#include "tools/commands/algorithm_commands.h"
#include "tools/draw/topology_file.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

constexpr char kSimulateHelp[] =
    R"(Works out how long a collective would take. Nothing is executed.

Ranks go through rounds; a round is all transfers that can run at once, and what
then is reduced and copied. A transfer begins when both its ranks have ended the
round before, and takes its bytes / bandwidth and one latency; what passes a
link in one round shares it. docs/simulate.md has the whole model.

The machine has the links that algorithms are chosen for: 1 us and 5 GB/s for
each rank within a task, 50 us and 2.5 GB/s between tasks, shared by the ranks
of a task. A rank reduces or copies 10 GB/s of results. `tutti explain` may find
other algorithms cheaper: for it each further message that leaves or enters a
task at once costs 40 us. --topology reads another machine:

  {"links": [{"name": "within tasks", "latency_us": 1, "gb_per_s": 20},
             {"name": "in a host", "tasks": 8, "latency_us": 5, "gb_per_s": 10},
             {"name": "network", "latency_us": 20, "gb_per_s": 12.5}],
   "message_us": 0, "reduced_gb_per_s": 10, "copied_gb_per_s": 10,
   "host": {"tasks": 8, "processors": 64}}

With "host", 8 tasks each share 64 processors, which pass what their ranks send
each other, and reduce and copy. Without it every rank has its own.

No algorithm can be faster than the lower bound: the latency of the outermost
links, and what one of the u parts that they join, m of all n ranks, must send
or receive there: this share of the bytes
  all_reduce                     2 (u - 1) / u
  all_gather, reduce_scatter,
  gather, scatter                (n - m) / n
  all_to_all                     m (n - m) / n
  broadcast, reduce, scan,
  exscan                         1
or, if that is more, the same of a rank at the bandwidth of all its links, or
the n-th part of all reductions; with hosts, one part for each processor.

Rings, chains, double trees, recursive halving, shuffles and what has them on
two levels have outlines for groups of up to 1,000,000 ranks; with "host", rings
of many ranks in each host may be too much, and so may ranks that send to very
many at once. Others are simulated as planned, up to 6,000,000 steps.

LocalThenRing and its like run as passes over memory within tasks. Simulated is
an algorithm that stands for them, with messages there, which the first rank of
a task sends and receives alone: that takes longer. A note says so.

--json prints one object:
  name, collective, layout     as given
  note                         what runs otherwise than simulated; null if
                               nothing does
  ranks, bytes                 how many, of the larger of one rank's buffers
  time_us                      until the last rank has ended
  lower_bound_us, share        share is lower bound / time; null of one rank
  rounds, simulated_ranks      the other ranks do the same, elsewhere
  chunk_bytes                  of a chunk; a message has at least one
  input_bytes, output_bytes, scratch_bytes
                               the most that a rank has
  processors, processors_share of all hosts, and the share of the time that they
                               work; null without "host"
  links                        a list, from inside to outside: name, latency_us,
                               gb_per_s, bytes, messages of the whole group

Examples:
  tutti simulate RingReduce --layout 4x2 --bytes 64M
  tutti simulate RecursiveHalvingDoublingReduce --layout 1000x100 --bytes 64M
  tutti simulate TreeReduce --layout 64x8 --topology cluster.json --json)";

constexpr int kMaxSimulatedRanks = 1'000'000;

// Largest size of any rank's buffers, in bytes.
struct Buffers {
  double input = 0;
  double output = 0;
  double scratch = 0;
};

struct SimulationReport {
  std::string name;
  ScheduleRequest of;
  ClusterModel cluster;
  double bytes = 0;
  double chunk_bytes = 0;
  Buffers buffers;
  double lower_bound_seconds = 0;
  Simulation simulation;
};

// A barrier's token is one byte.
double BytesOfBuffer(const Workload& workload) {
  const bool is_barrier = workload.spec.type == CollectiveType::kBarrier;
  return is_barrier ? 1 : static_cast<double>(BytesOf(workload));
}

Buffers BuffersOf(const Workload& workload, const Outline& outline,
                  double chunk_bytes) {
  const auto element = static_cast<double>(SizeOf(workload.dtype));
  Buffers buffers = {.scratch =
                         static_cast<double>(outline.size().scratch_chunks) *
                         chunk_bytes};
  // Ranks other than the root differ by at most one element.
  for (int rank : {0, workload.spec.root, workload.group_size - 1}) {
    const auto input = static_cast<double>(InputElements(workload, rank));
    const auto output = static_cast<double>(OutputElements(workload, rank));
    buffers.input = std::max(buffers.input, input * element);
    buffers.output = std::max(buffers.output, output * element);
  }
  return buffers;
}

// Reports times that only a topology file can cause.
absl::Status OutOfRange(const SimulateOptions& options,
                        const absl::Status& status) {
  return UsageError(absl::StrCat(
      options.topology, ": ", status.message(), R"(: a lower "latency_us" or )",
      R"("message_us", or a higher "gb_per_s", "reduced_gb_per_s" or )",
      R"("copied_gb_per_s")"));
}

absl::StatusOr<SimulationReport> MakeReport(
    const SimulateOptions& options, const CollectiveRegistry& registry) {
  ASSIGN_OR_RETURN(auto of, ParseScheduleRequest(options.words, registry,
                                                 kMaxSimulatedRanks));
  ASSIGN_OR_RETURN(auto cluster, options.topology.empty()
                                     ? ClusterOf()
                                     : ReadTopology(options.topology));
  ASSIGN_OR_RETURN(const auto outline,
                   OutlineOf(of.shown.algorithm, of.request, kMaxPlannedSteps));
  const double bytes = BytesOfBuffer(of.workload);
  const double chunk_bytes = bytes / outline->size().num_chunks;
  auto simulation = Simulate(*outline, of.request.layout, cluster, chunk_bytes);
  if (absl::IsOutOfRange(simulation.status())) {
    return OutOfRange(options, simulation.status());
  }
  if (!simulation.ok()) return simulation.status();
  const double bound =
      LowerBoundSeconds({.layout = of.request.layout,
                         .type = of.request.type,
                         .root = of.request.root,
                         .permutation = of.request.permutation},
                        cluster, bytes);
  const Buffers buffers = BuffersOf(of.workload, *outline, chunk_bytes);
  return SimulationReport{.name = options.words.name,
                          .of = std::move(of),
                          .cluster = std::move(cluster),
                          .bytes = bytes,
                          .chunk_bytes = chunk_bytes,
                          .buffers = buffers,
                          .lower_bound_seconds = bound,
                          .simulation = *std::move(simulation)};
}

// Ratio of the lower bound to the simulated time; nullopt if either is 0.
std::optional<double> ShareOf(const SimulationReport& report) {
  if (report.simulation.seconds == 0 || report.lower_bound_seconds == 0) {
    return std::nullopt;
  }
  return report.lower_bound_seconds / report.simulation.seconds;
}

// Number of processors of all hosts; nullopt without hosts.
std::optional<int64_t> ProcessorsOf(const SimulationReport& report) {
  const Host& host = report.cluster.host;
  if (host.processors == 0) return std::nullopt;
  const int num_hosts = NumHosts(host, report.of.request.layout.num_tasks());
  return int64_t{host.processors} * num_hosts;
}

// Share of all processors' time that is used; nullopt without hosts or time.
std::optional<double> ProcessorsShareOf(const SimulationReport& report) {
  const auto processors = ProcessorsOf(report);
  if (!processors.has_value() || report.simulation.seconds == 0) {
    return std::nullopt;
  }
  return report.simulation.processor_seconds /
         (static_cast<double>(*processors) * report.simulation.seconds);
}

std::string LinksTable(const SimulationReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < report.cluster.links.size(); ++i) {
    const LinkCost& cost = report.cluster.links[i].cost;
    const LinkUse& use = report.simulation.links[i];
    rows.push_back({use.name, absl::StrFormat("%g", cost.latency_seconds * 1e6),
                    absl::StrFormat("%g", cost.bytes_per_second / 1e9),
                    absl::StrFormat("%.0f", use.bytes),
                    absl::StrFormat("%.0f", use.messages)});
  }
  return FormatTable({{"links", Align::kLeft},
                      {"latency [us]"},
                      {"bandwidth [GB/s]"},
                      {"bytes"},
                      {"messages"}},
                     rows);
}

std::string ToText(const SimulationReport& report) {
  const VerifyCase& request = report.of.request;
  const Simulation& simulation = report.simulation;
  const auto share = ShareOf(report);
  const bool has_data = request.type != CollectiveType::kBarrier;
  std::string text = absl::StrCat(
      report.name, ": ", Name(request.type),
      has_data ? absl::StrFormat(" of %.0f bytes", report.bytes) : "", " on ",
      request.layout.ToString(), "\n");
  const int num_rounds = simulation.num_rounds - 1;
  absl::StrAppendFormat(&text, "time         %.1f us, %d %s\n",
                        simulation.seconds * 1e6, num_rounds,
                        num_rounds == 1 ? "round" : "rounds");
  absl::StrAppendFormat(
      &text, "lower bound  %.1f us, %s\n", report.lower_bound_seconds * 1e6,
      share.has_value() ? absl::StrFormat("%.1f %% of the time", *share * 100)
                        : "nothing to wait for");
  absl::StrAppendFormat(
      &text, "buffers      %.0f bytes: input %.0f, output %.0f, scratch %.0f\n",
      report.buffers.input + report.buffers.output + report.buffers.scratch,
      report.buffers.input, report.buffers.output, report.buffers.scratch);
  if (simulation.simulated_ranks < request.layout.size()) {
    absl::StrAppendFormat(
        &text, "ranks        %d simulated; all %d do the same, elsewhere\n",
        simulation.simulated_ranks, request.layout.size());
  }
  const std::string& note = report.of.shown.note;
  if (!note.empty()) absl::StrAppend(&text, "note         ", note, "\n");
  const auto processors_share = ProcessorsShareOf(report);
  if (processors_share.has_value()) {
    absl::StrAppendFormat(&text,
                          "processors   %d, at work for %.1f %% of the time\n",
                          *ProcessorsOf(report), *processors_share * 100);
  }
  return absl::StrCat(text, LinksTable(report));
}

Json ToJson(const SimulationReport& report) {
  const VerifyCase& request = report.of.request;
  Json links = Json::array();
  for (size_t i = 0; i < report.cluster.links.size(); ++i) {
    const LinkCost& cost = report.cluster.links[i].cost;
    const LinkUse& use = report.simulation.links[i];
    links.push_back({{"name", use.name},
                     {"latency_us", cost.latency_seconds * 1e6},
                     {"gb_per_s", cost.bytes_per_second / 1e9},
                     {"bytes", use.bytes},
                     {"messages", use.messages}});
  }
  return {{"name", report.name},
          {"note", OrNull(report.of.shown.note)},
          {"collective", std::string(Name(request.type))},
          {"layout", request.layout.ToString()},
          {"ranks", request.layout.size()},
          {"bytes", report.bytes},
          {"time_us", report.simulation.seconds * 1e6},
          {"lower_bound_us", report.lower_bound_seconds * 1e6},
          {"share", OrNull(ShareOf(report))},
          {"rounds", report.simulation.num_rounds - 1},
          {"simulated_ranks", report.simulation.simulated_ranks},
          {"chunk_bytes", report.chunk_bytes},
          {"input_bytes", report.buffers.input},
          {"output_bytes", report.buffers.output},
          {"scratch_bytes", report.buffers.scratch},
          {"processors", OrNull(ProcessorsOf(report))},
          {"processors_share", OrNull(ProcessorsShareOf(report))},
          {"links", links}};
}

}  // namespace

absl::Status SimulateAlgorithm(const SimulateOptions& options,
                               const CollectiveRegistry& registry,
                               const Console& console) {
  ASSIGN_OR_RETURN(const auto report, MakeReport(options, registry));
  if (options.json) {
    console.out << ToJson(report).dump(2) << "\n";
  } else {
    console.out << ToText(report);
  }
  return absl::OkStatus();
}

Command AddSimulateCommand(CLI::App* app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate = app->add_subcommand(
      "simulate", "Works out the time of an algorithm on any machine.");
  simulate->footer(kSimulateHelp);
  AddScheduleOptions(simulate, kMaxSimulatedRanks, &options->words);
  simulate
      ->add_option("--topology", options->topology,
                   "a machine, as JSON [default: see below]")
      ->check(NotEmpty())
      ->option_text("FILE");
  simulate->add_flag("--json", options->json, "print JSON");
  return {simulate, [options](const Console& console) {
            return SimulateAlgorithm(*options, CollectiveRegistry::Global(),
                                     console);
          }};
}

}  // namespace tutti
