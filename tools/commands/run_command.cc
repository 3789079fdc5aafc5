#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/on_interrupt.h"
#include "tools/cluster/cluster_mode.h"
#include "tools/cluster/gpus.h"
#include "tools/cluster/party_devices.h"
#include "tools/commands/collective_commands.h"
#include "tools/commands/run_plan.h"
#include "tools/files/npy.h"
#include "tools/files/output_files.h"
#include "tools/files/rank_files.h"
#include "tools/request/result_watch.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

constexpr char kRunHelp[] =
    R"(One .npy file is one rank. Ranks are numbered in natural order of the file
names (rank2 before rank10), in whatever order they are given: quote patterns or
let the shell expand them, the result is the same. Several --input options
follow one another: to have an order of your own, give each file its own.

The results are written to rank0.npy, rank1.npy, ... in the output directory,
where the collective gives a rank one; files of these names are replaced, but no
input is. Links of these names stay: what they lead to is replaced. Results take
their names once all ranks have succeeded and all files are on disk: after an
error, Ctrl-C or SIGTERM none of them has, and what they would replace is there
as before. Only a signal in the very last moment, when all files of the process
have their names, comes too late. If the tool is killed (SIGKILL) or the machine
stops, temporary files may stay (.rank0.npy.*.tmp), or, in the moment of
renaming, some results be new and others old; each is whole.

All ranks need the same dtype and shape; all_gather and gather may differ in the
first dimension. reduce_scatter and scatter cut that dimension into a block for
each rank: of one size, or with --uneven balanced (73 rows among 4 ranks are 19,
18, 18, 18). broadcast and scatter use the root's array: give one file per rank,
or the root's file alone and the number of ranks with --devices.

Arrays may be in C or Fortran order, and little-endian or big-endian; results
are in C order and little-endian.

dtypes: {dtypes}
(bool has no sum, prod and avg; complex numbers have nothing else). bfloat16 is
what ml_dtypes (JAX, TensorFlow) saves, descr '<V2';
numpy.load(f).view(ml_dtypes.bfloat16) reads the result. Other elements of fixed
size (dates, texts, structures, floats of 8 bits, which files do not tell apart)
are moved as they are, by collectives that do not reduce.

Examples:
  tutti run all_reduce --input 'grads/rank*.npy' --output out/
  tutti run all_reduce --reduction avg --input 'grads/rank*.npy' --output out/
  tutti run broadcast --input weights.npy --devices 8 --output out/
  tutti run permute --permutation 1,2,0 --input a.npy b.npy c.npy --output out/
  tutti run reduce_scatter --groups 4 --input 'x/*.npy' --output out/)";

absl::Status CheckOptions(const RunOptions& options,
                          const CollectiveSpec& spec) {
  const bool is_barrier = spec.type == CollectiveType::kBarrier;
  if (is_barrier && !options.output.empty()) {
    return UsageError("--output does not go with barrier");
  }
  if (!is_barrier && options.output.empty()) {
    return UsageError(absl::StrCat(
        Name(spec.type), " needs --output, the directory for its results"));
  }
  if (is_barrier && options.watch) {
    return UsageError("--watch does not go with barrier, which has no results");
  }
  if (spec.type == CollectiveType::kPermute && spec.permutation.empty()) {
    return UsageError("permute needs --permutation, such as 1,2,0");
  }
  if (options.uneven && !OutputIsOwnBlock(spec.type)) {
    return UsageError(absl::StrCat("--uneven does not go with ",
                                   Name(spec.type),
                                   ", only with reduce_scatter, scatter"));
  }
  if (options.algorithm.empty()) return absl::OkStatus();
  return CheckAlgorithm(CollectiveRegistry::Global(), options.algorithm,
                        spec.type, options.choice.device_type);
}

absl::StatusOr<std::vector<InputFile>> ReadHeaders(
    const std::vector<std::string>& paths) {
  std::vector<InputFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(path));
    files.push_back({path, header});
  }
  return files;
}

absl::StatusOr<Tensor> ReadInput(const InputFile& file) {
  absl::StatusOr<Tensor> tensor = ReadNpy(file.path);
  if (!tensor.ok()) return tensor;
  const NpyHeader now = {tensor->dtype(), tensor->shape(), file.header.descr};
  if (now.dtype == file.header.dtype && now.shape == file.header.shape) {
    return tensor;
  }
  return absl::AbortedError(
      absl::StrCat(file.path, ": changed while it was read, from ",
                   ToString(file.header), " to ", ToString(now)));
}

// Makes one call for each rank of this process, with its input and an element
// of `outputs`.
absl::StatusOr<std::vector<CollectiveArgs>> MakeCalls(
    const Party& party, const RunPlan& plan,
    const std::vector<InputFile>& files, Clock& clock,
    std::vector<Tensor>* outputs) {
  std::vector<CollectiveArgs> calls(party.num_local());
  for (size_t i = 0; i < calls.size(); ++i) {
    const PlannedRank& planned = plan.ranks[party.first_rank() + i];
    CollectiveRequest request = planned.request;
    Device& device = *party.devices()[i];
    request.device_type = device.attributes().name.type;
    calls[i].request =
        std::make_shared<const CollectiveRequest>(std::move(request));
    if (planned.has_output) calls[i].output = &(*outputs)[i];
    if (!planned.input.has_value()) continue;
    absl::StatusOr<Tensor> input = ReadInput(files[*planned.input]);
    if (input.ok()) input = ToDevice(*input, device, clock);
    if (!input.ok()) return input.status();
    calls[i].input = *std::move(input);
  }
  return calls;
}

absl::Status WriteAll(int first_rank, const RunPlan& plan,
                      const std::vector<Tensor>& tensors, OutputFiles* files) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor.is_set()) continue;
    const NpyHeader header = {tensor.dtype(), tensor.shape(),
                              plan.ranks[first_rank + i].descr};
    RETURN_IF_ERROR(files->Write(RankFileName(first_rank + static_cast<int>(i)),
                                 NpyPreamble(header),
                                 {tensor.data(), tensor.size_bytes()}));
  }
  return absl::OkStatus();
}

// Text such as "out/rank0.npy", "out/rank0.npy out/rank1.npy" or "out/rank0.npy
// ... ".
std::string Shortened(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return paths[0];
  return absl::StrCat(paths.front(), paths.size() == 2 ? " " : " ... ",
                      paths.back());
}

// Runs the calls in the command's only step, and prints the results if --watch
// is given. Fails on all tasks if it fails on one.
absl::Status RunAndShow(const RunOptions& options,
                        const Environment& environment, Party* party,
                        std::vector<CollectiveArgs> calls,
                        const Console& console) {
  const auto run = [&] {
    return RunCalls(party, environment.clock, /*step_id=*/1, std::move(calls))
        .status();
  };
  if (!options.watch) return run();
  const auto watch = ResultWatch::Start(environment, party->devices(),
                                        party->first_rank(), console.out);
  RETURN_IF_ERROR(party->Agree(watch.status()));
  party->manager().SetObserver((*watch)->observer());
  absl::Status status = run();
  party->manager().SetObserver(nullptr);
  return status.ok() ? party->Agree((*watch)->Finish()) : status;
}

// Copies the outputs to the host.
absl::Status Fetch(const Party& party, Clock& clock,
                   std::vector<Tensor>* outputs) {
  for (size_t i = 0; i < outputs->size(); ++i) {
    ASSIGN_OR_RETURN((*outputs)[i],
                     ToHost((*outputs)[i], *party.devices()[i], clock));
  }
  return absl::OkStatus();
}

// Outputs of the ranks of this process. Fails on all tasks if it fails on one.
absl::StatusOr<std::vector<Tensor>> Results(const RunOptions& options,
                                            const Environment& environment,
                                            Party* party, const RunPlan& plan,
                                            const std::vector<InputFile>& files,
                                            const Console& console) {
  std::vector<Tensor> outputs(party->num_local());
  auto calls = MakeCalls(*party, plan, files, *environment.clock, &outputs);
  RETURN_IF_ERROR(party->Agree(calls.status()));
  if (options.deadline_seconds.has_value()) {
    const absl::Time deadline =
        environment.clock->Now() + absl::Seconds(*options.deadline_seconds);
    for (CollectiveArgs& call : *calls) call.deadline = deadline;
  }
  RETURN_IF_ERROR(
      RunAndShow(options, environment, party, *std::move(calls), console));
  RETURN_IF_ERROR(party->Agree(Fetch(*party, *environment.clock, &outputs)));
  return outputs;
}

std::vector<std::string> OutputNames(const RunPlan& plan) {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (!plan.ranks[rank].has_output) continue;
    names.push_back(RankFileName(static_cast<int>(rank)));
  }
  return names;
}

// Text such as "rank 0 has a.npy, rank 1 has b.npy, rank 2 has c.npy, ..., rank
// 9 has j.npy".
std::string WhoHasWhat(absl::string_view who,
                       const std::vector<InputFile>& files) {
  constexpr size_t kMaxShown = 4;
  std::vector<std::string> parts;
  for (size_t i = 0; i < files.size(); ++i) {
    const bool is_last = i + 1 == files.size();
    if (i == kMaxShown - 1 && !is_last) parts.emplace_back("...");
    if (i >= kMaxShown - 1 && !is_last) continue;
    parts.push_back(absl::StrCat(who, " ", i, " has ", files[i].path));
  }
  return absl::StrJoin(parts, ", ");
}

// Prints a note, since the user may have meant the order of the command line.
void ReportOrder(const RunPlan& plan, const std::vector<InputFile>& files,
                 const Console& console) {
  const bool one_per_rank = files.size() == plan.ranks.size();
  console.err << "tutti: note: files are taken in natural order of their "
                 "names, not as given: "
              << WhoHasWhat(one_per_rank ? "rank" : "group", files) << "\n";
}

// Writes the files of all tasks, or none.
absl::Status RunAndWrite(const RunOptions& options,
                         const Environment& environment, Party* party,
                         const RunPlan& plan,
                         const std::vector<InputFile>& inputs,
                         const Console& console) {
  const auto files = OutputFiles::Create(options.output);
  RETURN_IF_ERROR(party->Agree(files.status()));
  const OnInterrupt on_interrupt([&] { (*files)->Discard(); });
  ASSIGN_OR_RETURN(const auto results,
                   Results(options, environment, party, plan, inputs, console));
  absl::Status status =
      party->Agree(WriteAll(party->first_rank(), plan, results, files->get()));
  // A task that fails or is interrupted before this point restores the old
  // files; the other tasks then do the same.
  if (status.ok()) status = party->Agree((*files)->Replace());
  if (status.ok()) return (*files)->Keep();
  // Discards twice: directories are empty only after all tasks discarded.
  (*files)->Discard();
  party->Align().IgnoreError();
  (*files)->Discard();
  return status;
}

absl::Status CheckOutputs(const RunOptions& options, const RunPlan& plan,
                          const std::vector<InputFile>& inputs) {
  std::vector<std::string> paths;
  for (const InputFile& input : inputs) paths.push_back(input.path);
  const std::vector<std::string> names = OutputNames(plan);
  RETURN_IF_ERROR(CheckReplacesNoInput(options.output, names, paths));
  return CheckFilesApart(options.output, names);
}

void ReportOutputs(const RunOptions& options, const RunPlan& plan,
                   const Console& console) {
  const std::vector<std::string> names = OutputNames(plan);
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back((std::filesystem::path(options.output) / name).string());
  }
  console.out << plan.description << ": wrote " << Shortened(paths) << "\n";
  const auto others = OtherRankFiles(options.output, names);
  if (others.empty()) return;
  // A later reader may take them for results of this run.
  console.err << "tutti: note: " << options.output << " also holds "
              << Shortened(others) << ", not of this run\n";
}

absl::Status RunPlanned(const RunOptions& options,
                        const Environment& environment, Party* party,
                        const RunPlan& plan,
                        const std::vector<InputFile>& files,
                        const Console& console) {
  if (options.output.empty()) {
    ASSIGN_OR_RETURN(const auto results, Results(options, environment, party,
                                                 plan, files, console));
    if (party->reports()) console.out << plan.description << ": done\n";
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(
      RunAndWrite(options, environment, party, plan, files, console));
  if (party->reports()) ReportOutputs(options, plan, console);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOnFiles(const RunOptions& options,
                        const Environment& environment,
                        const PartyFactory& make_party,
                        const Console& console) {
  ASSIGN_OR_RETURN(const auto spec, ParseCollectiveSpec(options.collective));
  RETURN_IF_ERROR(CheckOptions(options, spec));
  ASSIGN_OR_RETURN(const auto inputs, ExpandInputs(options.inputs));
  ASSIGN_OR_RETURN(const auto files, ReadHeaders(inputs.paths));
  RunSettings settings = {.spec = spec,
                          .groups = options.groups,
                          .devices = options.devices,
                          .uneven = options.uneven,
                          .algorithm = options.algorithm,
                          .determinism = options.choice.determinism,
                          .rank_list = options.choice.rank_list};
  if (options.cluster.has_value()) settings.tasks_of_cluster = options.tasks;
  ASSIGN_OR_RETURN(const auto plan, PlanRun(settings, files));
  if (plan.ranks.size() % options.tasks != 0) {
    return UsageError(absl::StrCat("--tasks ", options.tasks,
                                   " does not divide the number of ranks, ",
                                   plan.ranks.size()));
  }
  if (!options.output.empty()) {
    RETURN_IF_ERROR(CheckOutputs(options, plan, files));
  }
  ASSIGN_OR_RETURN(
      const auto party,
      make_party(static_cast<int>(plan.ranks.size()), options.tasks));
  const absl::Status status = party->Leave(
      RunPlanned(options, environment, party.get(), plan, files, console));
  if (status.ok() && inputs.reordered && party->reports()) {
    ReportOrder(plan, files, console);
  }
  return status;
}

Command AddRunCommand(CLI::App* app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app->add_subcommand(
      "run", "Runs a collective on arrays from .npy files.");
  run->footer(absl::StrReplaceAll(kRunHelp, {{"{dtypes}", DTypeNames(72)}}));
  AddCollectiveOptions(run, &options->collective);
  run->add_option_function<std::vector<std::string>>(
         "--input",
         [options](const std::vector<std::string>& words) {
           options->inputs.push_back(words);
         },
         "files or patterns, such as 'grads/rank*.npy'")
      ->trigger_on_parse()
      ->check(NotEmpty())
      ->option_text("FILE...");
  run->add_option("--output", options->output,
                  "directory for the results; made if missing")
      ->check(NotEmpty())
      ->option_text("DIR");
  run->add_option("--algorithm", options->algorithm,
                  "a registered name (see `tutti info`)\n"
                  "[default: the library chooses]")
      ->check(NotEmpty())
      ->option_text("NAME");
  AddChoiceOptions(run, &options->choice);
  AddRankListOption(run, &options->choice);
  run->add_option("--groups", options->groups,
                  "cut the ranks into N groups of equal size, in\n"
                  "order, that each run on their own, all at once\n"
                  "[default: 1]")
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  run->add_option("--devices", options->devices,
                  "number of ranks: for barrier, and where only the\n"
                  "root's file is given [default: one per file]\n"
                  "(not in a cluster)")
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  run->add_option("--tasks", options->tasks,
                  "spread the ranks over N tasks: algorithms that send\n"
                  "see them as processes [default: 1]\n"
                  "(not in a cluster)")
      ->transform(WholeNumber(1, kMaxGroupSize))
      ->option_text("N");
  run->add_flag("--uneven", options->uneven,
                "balance blocks that do not divide evenly, in\n"
                "reduce_scatter and scatter");
  run->add_option("--deadline", options->deadline_seconds,
                  "fail if the collective takes longer than so many\n"
                  "seconds [default: none]")
      ->check(PositiveSeconds())
      ->option_text("SECONDS");
  run->add_flag("--watch", options->watch,
                "print a line for each rank's result as soon as the\n"
                "rank has it, before any file is written");
  auto words = std::make_shared<ClusterWords>();
  AddClusterOptions(run, words.get());
  return {
      .app = run,
      .run =
          [options, words, run](const Console& console) {
            RETURN_IF_ERROR(TakeRanksOfCluster(*run, *words, options.get()));
            ASSIGN_OR_RETURN(const auto rules,
                             TakeRules(options->choice, EnvironmentVariable,
                                       CollectiveRegistry::Global()));
            const DefaultEnvironment environment;
            ASSIGN_OR_RETURN(
                const auto make_devices,
                DeviceMakerFor(options->choice.device_type, environment.get()));
            return RunOnFiles(*options, environment.get(),
                              PartyOf(environment.get(),
                                      {.cluster = options->cluster,
                                       .command = SharedCommand(*run),
                                       .rules = rules,
                                       .make_devices = make_devices},
                                      console),
                              console);
          },
      .cluster = {options, &options->cluster}};
}

}  // namespace tutti
