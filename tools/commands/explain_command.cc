#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/json_value.h"
#include "tools/base/text.h"
#include "tools/cluster/gpus.h"
#include "tools/commands/algorithm_commands.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace {

constexpr char kExplainHelp[] =
    R"(Lists every registered algorithm: first those that can serve, the cheapest
first, then the others, with what rules them out. Nothing is executed: the
library asks the same function, with the same answer, when it runs a collective.

An algorithm that is named is taken; else that of the first rule of --rules that
matches; else the one with the least predicted time.

predicted is what the algorithm's own model says, in which a message takes 1 us
+ bytes / 5 GB/s within a process, and 50 us + bytes / 2.5 GB/s between
processes, where all ranks of a process share the 2.5 GB/s, and each further
message that leaves or enters a process at the same time takes 40 us more; with
--mpi, as between processes of one host, 14 us + bytes / 4.2 GB/s and 2.5 us.
Processes under MPI that have fewer --processors than they are wait for each
other's turns, and all their messages together for processors. It compares
algorithms; `tutti perf` measures.

--bytes is the size of the larger of one rank's two buffers: what each rank has
in all_reduce, broadcast, permute, reduce, scan and exscan; all blocks together
in all_gather, gather, reduce_scatter, scatter and all_to_all, rounded down to a
multiple of the number of ranks, or up to one element for each. A barrier has no
data, and takes no option that speaks of them.

A layout is 4x2, 4 tasks with 2 devices each, or 3+1+2, the devices of each
task. A task is a process, so that more than one task rules out what needs all
members in one process; with --one-process they are tasks of one process, as
those of `tutti run --tasks` and `tutti perf --tasks` are. With --mpi they are
processes that `mpirun` starts.

With --device gpu, no GPU is looked for: each device is taken to have a GPU of
its own that reaches the others, and NCCL. What runs may be another algorithm
where ranks share a GPU.

Exit status 1 if the algorithm of --algorithm cannot serve.

--json prints one object:
  collective, layout           as given
  ranks, tasks                 how many
  one_process, mpi             true or false
  device_type                  "CPU" or "GPU"
  bytes, count                 of the larger buffer
  dtype, reduction             names; null of a barrier, and where nothing is
                               reduced
  determinism                  what is demanded at least: "by rank order",
                               "fixed layout" or "not guaranteed"
  latency_us, bandwidth        of the model: microseconds, GB/s
  process_latency_us, process_bandwidth
                               the same between processes; null in one process
  process_gap_us               of each further message that leaves or enters a
                               process at the same time; null in one process
  processors                   that processes share; null if each has one
  chosen                       a name; null if that of --algorithm cannot serve
  rules                        a list of those that match, up to the one that
                               decides, with an object for each: where (file and
                               line), algorithm, ruled_out (why it does not
                               decide; null if it does)
  candidates                   a list in the order above, with an object for
                               each: name, predicted_us (null if ruled out, or
                               without a model), determinism (what it offers),
                               ruled_out (why; null if not)

Examples:
  tutti explain all_reduce
  tutti explain all_reduce --layout 4x2 --bytes 64M --json
  tutti explain reduce_scatter --layout 2x8 --one-process
  tutti explain all_reduce --layout 8x1 --mpi --processors 2
  tutti explain all_reduce --layout 4x2 --algorithm TreeReduce)";

// A selection request and its answer.
struct Explanation {
  const ExplainOptions& options;
  Workload workload;
  GroupLayout layout = GroupLayout::Uniform(1, 1);
  bool one_process = true;
  CostModel model;
  std::vector<Candidate> candidates;           // In the order of the output.
  std::string chosen;                          // Empty if `refusal` is not OK.
  std::vector<Selection::MatchingRule> rules;  // Rules consulted.
  absl::Status refusal;
};

// Order of candidates: first those that can run, by cost, without a prediction
// last; then those that support this collective, but not this request; then the
// rest. Equal ones are ordered by name.
void Sort(const CollectiveRegistry& registry, CollectiveType type,
          std::vector<Candidate>* candidates) {
  const auto does_it = [&](const Candidate& candidate) {
    const auto factory = registry.Find(candidate.name);
    if (!factory.ok()) return false;
    const auto& types = (*factory)->traits().collectives;
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  const auto key = [&](const Candidate& candidate) {
    return std::make_tuple(!candidate.ruled_out.empty(), !does_it(candidate),
                           !candidate.cost_seconds.has_value(),
                           candidate.cost_seconds, candidate.determinism);
  };
  std::stable_sort(
      candidates->begin(), candidates->end(),
      [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
}

CostModel ModelOf(const ExplainOptions& options, int num_tasks) {
  if (!options.mpi) return {};
  return MpiCostOnOneHost(
      num_tasks, options.processors == 0 ? num_tasks : options.processors);
}

absl::StatusOr<Explanation> Explain(const ExplainOptions& options,
                                    const CollectiveRegistry& registry) {
  ASSIGN_OR_RETURN(const auto layout,
                   ParseLayout(options.layout, kMaxGroupSize));
  ASSIGN_OR_RETURN(auto workload, ParseWorkload(options.collective,
                                                options.dtype, layout.size()));
  ASSIGN_OR_RETURN(const auto bytes, ParseSize("--bytes", options.bytes));
  if (!options.algorithm.empty()) {
    ASSIGN_OR_RETURN(const auto known,
                     FindAlgorithm(registry, options.algorithm));
  }
  const CollectiveType type = workload.spec.type;
  workload.count = CountFor(type, workload.dtype, workload.group_size, bytes);
  Explanation result{
      .options = options,
      .workload = std::move(workload),
      .layout = layout,
      .one_process = options.one_process || layout.num_tasks() == 1,
      .model = ModelOf(options, layout.num_tasks())};
  const SelectionRequest request = {
      .type = type,
      .layout = result.layout,
      .device_type = options.choice.device_type,
      .bytes = BytesOf(result.workload),
      .one_process = result.one_process,
      .delegate = std::string(options.mpi ? kMpiDelegate : ""),
      .implementation = options.algorithm,
      .dtype = result.workload.dtype,
      .merge_op = result.workload.spec.merge_op,
      .final_op = result.workload.spec.final_op,
      .determinism = options.choice.determinism,
      .model = result.model};
  result.candidates = JudgeImplementations(registry, request);
  Sort(registry, type, &result.candidates);
  const auto selection = SelectImplementation(
      {.registry = &registry, .rules = options.rules}, request);
  result.refusal = selection.status();
  if (!selection.ok()) return result;
  result.chosen = selection->name;
  result.rules = selection->matching_rules;
  return result;
}

bool HasData(const Explanation& explanation) {
  return explanation.workload.spec.type != CollectiveType::kBarrier;
}

// Text such as "all_reduce sum of 1048576 bytes (262144 float32) on 4x2, 4
// processes".
std::string Question(const Explanation& explanation) {
  const Workload& workload = explanation.workload;
  std::string text(Name(workload.spec.type));
  if (!workload.spec.reduction.empty()) {
    absl::StrAppend(&text, " ", workload.spec.reduction);
  }
  if (HasData(explanation)) {
    absl::StrAppend(&text, " of ", BytesOf(workload), " bytes (",
                    workload.count, " ", Name(workload.dtype), ")");
  }
  absl::StrAppend(&text, " on ", explanation.layout.ToString(), ", ");
  if (explanation.one_process) {
    absl::StrAppend(&text, "one process");
  } else {
    absl::StrAppend(&text, explanation.layout.num_tasks(), " processes",
                    explanation.options.mpi ? " under mpirun" : "");
  }
  if (explanation.options.choice.device_type != "CPU") {
    absl::StrAppend(&text, ", ", explanation.options.choice.device_type,
                    " devices");
  }
  if (explanation.options.choice.determinism != Determinism::kNotGuaranteed) {
    absl::StrAppend(&text, ", determinism ",
                    Name(explanation.options.choice.determinism));
  }
  return text;
}

std::vector<std::string> Cells(const Explanation& explanation,
                               const Candidate& candidate) {
  return {
      candidate.name,
      candidate.cost_seconds.has_value()
          ? absl::StrFormat("%.1f", *candidate.cost_seconds * 1e6)
          : "-",
      candidate.name == explanation.chosen ? "chosen" : candidate.ruled_out};
}

std::string ToText(const Explanation& explanation) {
  std::vector<std::vector<std::string>> rows;
  for (const Candidate& candidate : explanation.candidates) {
    rows.push_back(Cells(explanation, candidate));
  }
  std::string text = absl::StrCat(Question(explanation), "\n",
                                  FormatTable({{"algorithm", Align::kLeft},
                                               {"predicted [us]"},
                                               {"verdict", Align::kLeft}},
                                              rows));
  for (const auto& [rule, why_not] : explanation.rules) {
    absl::StrAppend(&text, rule.where, ": ", rule.implementation,
                    why_not.empty() ? " is chosen by this rule"
                                    : absl::StrCat(" ", why_not),
                    "\n");
  }
  return text;
}

Json ToJson(const Candidate& candidate) {
  return {{"name", candidate.name},
          {"predicted_us", candidate.cost_seconds.has_value()
                               ? Json(*candidate.cost_seconds * 1e6)
                               : Json()},
          {"determinism", std::string(Name(candidate.determinism))},
          {"ruled_out", OrNull(candidate.ruled_out)}};
}

Json ToJson(const Selection::MatchingRule& matching) {
  return {{"where", matching.rule.where},
          {"algorithm", matching.rule.implementation},
          {"ruled_out", OrNull(matching.why_not)}};
}

Json ToJson(const Explanation& explanation) {
  const Workload& workload = explanation.workload;
  const std::string dtype(Name(workload.dtype));
  const LinkCost& within = explanation.model.within;
  const LinkCost& between = explanation.model.between;
  const bool spans_processes = !explanation.one_process;
  Json candidates = Json::array();
  for (const Candidate& candidate : explanation.candidates) {
    candidates.push_back(ToJson(candidate));
  }
  Json rules = Json::array();
  for (const Selection::MatchingRule& matching : explanation.rules) {
    rules.push_back(ToJson(matching));
  }
  return {{"collective", std::string(Name(workload.spec.type))},
          {"layout", explanation.layout.ToString()},
          {"ranks", explanation.layout.size()},
          {"tasks", explanation.layout.num_tasks()},
          {"one_process", explanation.one_process},
          {"mpi", explanation.options.mpi},
          {"device_type", explanation.options.choice.device_type},
          {"bytes", BytesOf(workload)},
          {"count", workload.count},
          {"dtype", HasData(explanation) ? Json(dtype) : Json()},
          {"reduction", OrNull(workload.spec.reduction)},
          {"determinism",
           std::string(Name(explanation.options.choice.determinism))},
          {"latency_us", within.latency_seconds * 1e6},
          {"bandwidth", within.bytes_per_second / 1e9},
          {"process_latency_us",
           spans_processes ? Json(between.latency_seconds * 1e6) : Json()},
          {"process_bandwidth",
           spans_processes ? Json(between.bytes_per_second / 1e9) : Json()},
          {"process_gap_us",
           spans_processes ? Json(explanation.model.between_gap_seconds * 1e6)
                           : Json()},
          {"processors", explanation.model.shared.num > 0
                             ? Json(explanation.model.shared.num)
                             : Json()},
          {"chosen", OrNull(explanation.chosen)},
          {"rules", rules},
          {"candidates", candidates}};
}

// Checks that the implementations of GPUs are in the tool.
absl::Status CheckDevice(absl::string_view device_type) {
  if (device_type == "CPU") return absl::OkStatus();
  const GpuReport gpus = GpusHere();
  if (gpus.has_cuda) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--device gpu: ", gpus.why_none));
}

void AddOptions(CLI::App* app, ExplainOptions* options) {
  AddReductionOptions(app, &options->collective);
  app->add_option("--layout", options->layout,
                  "tasks x devices of each, or the devices of each\n"
                  "task: 4x2, 3+1+2 [default: 1x8]")
      ->option_text("TxD");
  CLI::Option* const one_process = app->add_flag(
      "--one-process", options->one_process, "all tasks are in one process");
  CLI::Option* const mpi =
      app->add_flag("--mpi", options->mpi,
                    "tasks are processes of one host under `mpirun`")
          ->excludes(one_process);
  app->add_option("--processors", options->processors,
                  "that this host has for them [default: one for\n"
                  "each]")
      ->needs(mpi)
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  app->add_option("--bytes", options->bytes,
                  "of the larger of one rank's buffers; K, M and G\n"
                  "are powers of 1024 [default: 1M]")
      ->option_text("SIZE");
  app->add_option("--dtype", options->dtype,
                  absl::StrCat(DTypeNames(42), " [default: float32]"))
      ->option_text("NAME");
  app->add_option("--algorithm", options->algorithm,
                  "a registered name (see `tutti info`)\n"
                  "[default: the library chooses]")
      ->check(NotEmpty())
      ->option_text("NAME");
  AddChoiceOptions(app, &options->choice);
  app->add_flag("--json", options->json, "print JSON");
}

}  // namespace

absl::Status ExplainChoice(const ExplainOptions& options,
                           const CollectiveRegistry& registry,
                           const Console& console) {
  ASSIGN_OR_RETURN(const auto explanation, Explain(options, registry));
  if (options.json) {
    // The name of a rules file may not be valid UTF-8.
    console.out << ToJson(explanation)
                       .dump(2, ' ', false, Json::error_handler_t::replace)
                << "\n";
  } else {
    console.out << ToText(explanation);
  }
  return explanation.refusal;
}

Command AddExplainCommand(CLI::App* app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* explain = app->add_subcommand(
      "explain", "Shows which algorithm would be chosen, and why.");
  explain->footer(kExplainHelp);
  AddOptions(explain, options.get());
  return {explain, [options, explain](const Console& console) {
            RETURN_IF_ERROR(CheckOptionsOfBarrier(*explain, options->collective,
                                                  {"--bytes", "--dtype"}));
            RETURN_IF_ERROR(CheckDevice(options->choice.device_type));
            ASSIGN_OR_RETURN(options->rules,
                             TakeRules(options->choice, EnvironmentVariable,
                                       CollectiveRegistry::Global()));
            return ExplainChoice(*options, CollectiveRegistry::Global(),
                                 console);
          }};
}

}  // namespace tutti
