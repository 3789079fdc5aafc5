#include "tools/commands/info_command.h"

#include <memory>

#include "tools/commands/info.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

constexpr char kInfoHelp[] =
    R"(Lists all algorithms of this build, also those that cannot run on this
machine. Of each algorithm:
  collectives  what it does
  devices      where it runs
  kind         schedule: steps that `tutti verify` proves; a library that does
               it, or a part of it; code: anything else
  chosen       by cost, or only if named with --algorithm
  one process  needs all ranks in one process
  rank order   reduces strictly from the lowest rank to the highest, so that
               the merge op need not commute
  subdivs      can run several rings at once
  uneven       ranks may bring different amounts
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

Command AddInfoCommand(CLI::App* app) {
  auto json = std::make_shared<bool>(false);
  auto times = std::make_shared<bool>(false);
  CLI::App* info =
      app->add_subcommand("info", "Shows the build and every algorithm in it.");
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
