#include "tools/commands/info_command.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/choice/why_not.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "hwy/highway.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "remote/transport_registry.h"
#include "tools/base/environment_variables.h"
#include "tools/base/json_value.h"
#include "tools/base/text.h"
#include "tools/base/version.h"
#include "tools/cluster/cluster_options.h"
#include "tools/commands/support_table.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

#if defined(ABSL_HAVE_ADDRESS_SANITIZER)
constexpr char kSanitizer[] = "address";
#elif defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr char kSanitizer[] = "thread";
#else
constexpr char kSanitizer[] = "";
#endif

#ifdef __OPTIMIZE__
constexpr bool kOptimized = true;
#else
constexpr bool kOptimized = false;
#endif

#ifdef __clang__
constexpr char kCompiler[] = __VERSION__;
#else
constexpr char kCompiler[] = "GCC " __VERSION__;
#endif

// Instruction sets, best first: Highway gives better ones lower numbers.
std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  int64_t left = hwy::SupportedTargets() & HWY_TARGETS;
  while (left != 0) {
    const int64_t best = left & -left;
    names.emplace_back(hwy::TargetName(best));
    left &= ~best;
  }
  return names;
}

std::string ProcessorModel() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "model name")) continue;
    return std::string(rest.substr(std::min(rest.find(':') + 2, rest.size())));
  }
  return "";
}

std::string OrAny(const std::vector<std::string>& device_types) {
  return device_types.empty() ? "any" : absl::StrJoin(device_types, ",");
}

std::string CollectivesOf(const ImplementationTraits& traits) {
  return absl::StrJoin(traits.collectives, ",",
                       [](std::string* out, CollectiveType type) {
                         absl::StrAppend(out, Name(type));
                       });
}

std::string YesOrNo(bool value) { return value ? "yes" : "no"; }

// Kind of an algorithm: a schedule, other code of Tutti, or a library.
std::string KindOf(const CollectiveFactory& factory) {
  if (AlgorithmOf(factory) != nullptr) return "schedule";
  const ImplementationTraits& traits = factory.traits();
  if (!traits.delegate.empty()) return traits.delegate;
  const std::string& library = traits.device_needs.library;
  return library.empty() ? "code" : library;
}

std::string RankListText(RankListUse use, const std::string& none) {
  switch (use) {
    case RankListUse::kNone:
      return none;
    case RankListUse::kAllRanks:
      return "ring";
    case RankListUse::kOwners:
      return "owners";
  }
  return none;
}

std::vector<std::string> Cells(const CollectiveRegistry::Entry& entry) {
  const ImplementationTraits& traits = entry.factory->traits();
  return {entry.name,
          CollectivesOf(traits),
          OrAny(traits.device_types),
          KindOf(*entry.factory),
          traits.cost_seconds != nullptr ? "by cost" : "if named",
          YesOrNo(traits.needs_one_process),
          YesOrNo(traits.preserves_rank_order),
          YesOrNo(traits.supports_subdivisions),
          YesOrNo(traits.supports_uneven),
          YesOrNo(traits.shares_output),
          RankListText(traits.rank_list, "-"),
          std::string(Name(traits.determinism))};
}

std::string FormatTraits(const CollectiveRegistry& registry) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : registry.List()) rows.push_back(Cells(entry));
  return FormatTable({{"name", Align::kLeft},
                      {"collectives", Align::kLeft},
                      {"devices", Align::kLeft},
                      {"kind", Align::kLeft},
                      {"chosen", Align::kLeft},
                      {"one process", Align::kLeft},
                      {"rank order", Align::kLeft},
                      {"subdivs", Align::kLeft},
                      {"uneven", Align::kLeft},
                      {"one output", Align::kLeft},
                      {"rank list", Align::kLeft},
                      {"same bits", Align::kLeft}},
                     rows);
}

std::string FormatSummaries(const CollectiveRegistry& registry) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : registry.List()) {
    rows.push_back({entry.name, entry.factory->traits().summary});
  }
  return FormatTable({{"name", Align::kLeft}, {"summary", Align::kLeft}}, rows);
}

// Empty if everything can run here.
std::string FormatReasons(const BuildInfo& build,
                          const CollectiveRegistry& registry) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : registry.List()) {
    std::string why_not = WhyNotHere(entry.factory->traits(), build);
    if (!why_not.empty()) rows.push_back({entry.name, std::move(why_not)});
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "\n", FormatTable({{"not here", Align::kLeft}, {"reason", Align::kLeft}},
                        rows));
}

std::string TimeText(absl::Duration time) {
  return time == absl::InfiniteDuration() ? "none" : absl::FormatDuration(time);
}

Json ToJson(const CollectiveRegistry::Entry& entry, const BuildInfo& build) {
  const ImplementationTraits& traits = entry.factory->traits();
  Json collectives = Json::array();
  for (CollectiveType type : traits.collectives) {
    collectives.push_back(std::string(Name(type)));
  }
  return {{"name", entry.name},
          {"summary", traits.summary},
          {"collectives", collectives},
          {"device_types", traits.device_types},
          {"is_schedule", AlgorithmOf(*entry.factory) != nullptr},
          {"chosen_by_cost", traits.cost_seconds != nullptr},
          {"needs_one_process", traits.needs_one_process},
          {"preserves_rank_order", traits.preserves_rank_order},
          {"supports_subdivisions", traits.supports_subdivisions},
          {"supports_uneven", traits.supports_uneven},
          {"shares_output", traits.shares_output},
          {"takes_segments", traits.takes_segments},
          {"rank_list", RankListText(traits.rank_list, "none")},
          {"delegate", traits.delegate},
          {"delegates_between_processes", traits.delegates_between_processes},
          {"determinism", std::string(Name(traits.determinism))},
          {"why_not_here", OrNull(WhyNotHere(traits, build))}};
}

std::string GpuText(const GpuReport& gpus) {
  const std::string here = gpus.names.empty()
                               ? absl::StrCat("none: ", gpus.why_none)
                               : absl::StrCat(gpus.names.size(), ": ",
                                              absl::StrJoin(gpus.names, ", "));
  std::string nccl_here =
      gpus.nccl_version.empty() ? gpus.why_no_nccl : gpus.nccl_version;
  if (!gpus.why_nccl_within_process.empty()) {
    absl::StrAppend(&nccl_here, ", for groups of one process alone: ",
                    gpus.why_nccl_within_process);
  }
  return absl::StrCat(here, "; CUDA: ", gpus.cuda, "; NCCL: ", gpus.nccl,
                      "; its library: ", nccl_here);
}

Json ToJson(const GpuReport& gpus) {
  return {{"names", gpus.names},
          {"why_none", OrNull(gpus.why_none)},
          {"cuda", gpus.cuda},
          {"nccl", gpus.nccl},
          {"nccl_version", OrNull(gpus.nccl_version)},
          {"why_no_nccl", OrNull(gpus.why_no_nccl)},
          {"why_nccl_within_process", OrNull(gpus.why_nccl_within_process)}};
}

std::string Line(absl::string_view name, const std::string& value) {
  return absl::StrFormat("%-12s  %s\n", name, value);
}

// Table of the registry's implementations over the transports of the build.
SupportTable SupportIn(const BuildInfo& build,
                       const CollectiveRegistry& registry) {
  std::vector<std::string> transports;
  for (const std::string& name : build.extensions) {
    if (TransportRegistry::Global().Find(name).ok()) transports.push_back(name);
  }
  return SupportOf(registry, transports);
}

std::string ExtensionText(const BuildInfo& build, absl::string_view name) {
  if (name != "MPI") return "built in";
  return build.has_cuda_aware_mpi ? "built in, CUDA-aware"
                                  : "built in, not CUDA-aware";
}

// Whether the implementation serves GPUs and no devices in host memory.
bool NeedsGpus(const ImplementationTraits& traits) {
  return traits.device_types.size() == 1 &&
         traits.device_types.front() == CudaDevice::kType;
}

constexpr char kInfoHelp[] =
    R"(Lists the dtypes that each collective takes on each type of device, in one
process and over each transport, by any algorithm of this build; then all
algorithms, also those that cannot run on this machine. Of each algorithm:
  collectives  what it does
  devices      where it runs
  kind         schedule: steps that `tutti verify` proves; a library that does
               it, or a part of it; code: anything else
  chosen       by cost, or only if named with --algorithm
  one process  needs all ranks in one process
  rank order   reduces strictly from the lowest rank to the highest, so that
               the merge op need not commute
  subdivs      can run several rings at once
  uneven       blocks of ranks may differ in size
  one output   members in one process may get one output, if they allow it
  rank list    what --rank-list is to it: the order around its ring, or the
               owners of the pieces
  same bits    what results depend on besides the inputs. by rank order:
               nothing; fixed layout: how ranks lie on tasks
  not here     what this machine lacks for it: a GPU, NCCL, or mpirun, which
               starts processes that MPI connects

--json prints one object:
  version                      text
  build                        compiler, optimized, simd, sanitizer (null if
                               none), extensions, missing_extensions,
                               cuda_aware_mpi (whether MPI is here and takes
                               memory of GPUs, as its header says)
  processor, processors        the model, and how many
  memory_bytes                 of the machine
  gpus                         names, why_none (null if there are some), what
                               the build found: cuda, nccl, and nccl_version
                               of the library here (null if none opens),
                               why_no_nccl (null if it does),
                               why_nccl_within_process (why it serves groups
                               of one process alone; null if it serves others)
  device_types                 a list
  support                      a list with an object for each collective, or
                               for reductions of it: collective, reductions,
                               places (a list: device_type, transport (null: in
                               one process), dtypes)
  algorithms                   a list with an object for each: name, summary,
                               collectives, device_types (empty: any),
                               is_schedule, chosen_by_cost,
                               needs_one_process, preserves_rank_order,
                               supports_subdivisions, supports_uneven,
                               shares_output (one output, above),
                               takes_segments (tensors that are reduced
                               together need no packing), rank_list (none,
                               ring, owners), delegate (the library that does
                               it, or empty), delegates_between_processes (it
                               does only what goes between them), determinism
                               (same bits, above), why_not_here (null if it
                               lacks nothing here)

Examples:
  tutti info
  tutti info --json
  tutti info --times)";

}  // namespace

BuildInfo ThisBuild() {
  BuildInfo build = {
      .version = kVersion,
      .compiler = kCompiler,
      .optimized = kOptimized,
      .simd = SimdTargets(),
      .sanitizer = kSanitizer,
      .processor = ProcessorModel(),
      .num_processors = static_cast<int>(std::thread::hardware_concurrency()),
      .memory_bytes =
          int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)},
      .extensions = TransportRegistry::Global().names(),
      .is_started_by_mpirun = IsStartedByMpirun(EnvironmentVariable),
      .gpus = GpusHere()};
  (build.gpus.has_cuda ? build.extensions : build.missing_extensions)
      .push_back("CUDA");
  (build.gpus.has_nccl ? build.extensions : build.missing_extensions)
      .push_back("NCCL");
  const auto mpi = TransportRegistry::Global().Find("MPI");
  if (!mpi.ok()) build.missing_extensions.push_back("MPI");
  build.has_cuda_aware_mpi = mpi.ok() && mpi->takes_gpu_memory;
  return build;
}

std::string FormatTimes() {
  std::vector<std::vector<std::string>> rows;
  for (const TimeRow& row : kTimes) {
    rows.push_back({std::string(row.name), TimeText(row.time),
                    std::string(row.waits), std::string(row.set_by)});
  }
  return FormatTable({{"time", Align::kLeft},
                      {"default"},
                      {"what waits", Align::kLeft},
                      {"set by", Align::kLeft}},
                     rows);
}

std::string FormatInfo(const BuildInfo& build,
                       const CollectiveRegistry& registry) {
  std::string text = absl::StrCat("tutti ", build.version, "\n");
  const auto add = [&text](absl::string_view name, const std::string& value) {
    absl::StrAppend(&text, Line(name, value));
  };
  add("compiler", build.compiler + (build.optimized ? "" : ", not optimized"));
  add("SIMD", absl::StrJoin(build.simd, ", "));
  add("sanitizer", build.sanitizer.empty() ? "none" : build.sanitizer);
  for (const std::string& name : build.extensions) {
    add(name, ExtensionText(build, name));
  }
  for (const std::string& name : build.missing_extensions) {
    add(name, "not built in");
  }
  add("processors",
      absl::StrCat(build.num_processors, build.processor.empty() ? "" : ", ",
                   build.processor));
  add("memory",
      absl::StrFormat("%.1f GiB", static_cast<double>(build.memory_bytes) /
                                      (int64_t{1} << 30)));
  add("GPUs", GpuText(build.gpus));
  add("devices", "CPU: as many as asked for, in this process");
  return absl::StrCat(text, "\n", FormatSupport(SupportIn(build, registry)),
                      "\n", FormatSummaries(registry), "\n",
                      FormatTraits(registry), FormatReasons(build, registry));
}

Json InfoAsJson(const BuildInfo& build, const CollectiveRegistry& registry) {
  Json algorithms = Json::array();
  for (const auto& entry : registry.List()) {
    algorithms.push_back(ToJson(entry, build));
  }
  return {{"version", build.version},
          {"build",
           {{"compiler", build.compiler},
            {"optimized", build.optimized},
            {"simd", build.simd},
            {"sanitizer", OrNull(build.sanitizer)},
            {"extensions", build.extensions},
            {"missing_extensions", build.missing_extensions},
            {"cuda_aware_mpi", build.has_cuda_aware_mpi}}},
          {"processor", build.processor},
          {"processors", build.num_processors},
          {"memory_bytes", build.memory_bytes},
          {"gpus", ToJson(build.gpus)},
          {"device_types", {"CPU"}},
          {"support", SupportAsJson(SupportIn(build, registry))},
          {"algorithms", algorithms}};
}

std::string WhyNotHere(const ImplementationTraits& traits,
                       const BuildInfo& build) {
  std::string why_not = WhyNotOfParts(traits);
  if (!why_not.empty()) return why_not;
  if (NeedsGpus(traits) && build.gpus.names.empty()) {
    return absl::StrCat("needs a GPU: ", build.gpus.why_none);
  }
  if (traits.device_needs.library == kNcclLibrary &&
      !build.gpus.why_no_nccl.empty()) {
    return absl::StrCat("needs NCCL: ", build.gpus.why_no_nccl);
  }
  if (traits.delegate == kMpiDelegate && !build.is_started_by_mpirun) {
    return "needs processes of mpirun, which has not started this one";
  }
  return "";
}

Command AddInfoCommand(CLI::App* app) {
  auto json = std::make_shared<bool>(false);
  auto times = std::make_shared<bool>(false);
  CLI::App* info = app->add_subcommand(
      "info", "Shows the build, what runs where, and every algorithm.");
  info->footer(kInfoHelp);
  CLI::Option* const as_json = info->add_flag("--json", *json, "print JSON");
  info->add_flag("--times", *times, "print all times instead")
      ->excludes(as_json);
  return {info,
          [json, times](const Console& console) {
            const CollectiveRegistry& registry = CollectiveRegistry::Global();
            if (*times) {
              console.out << FormatTimes();
            } else if (*json) {
              console.out << InfoAsJson(ThisBuild(), registry).dump(2) << "\n";
            } else {
              console.out << FormatInfo(ThisBuild(), registry);
            }
            return registry.status();
          },
          /*tolerates_registration_errors=*/true};
}

}  // namespace tutti
