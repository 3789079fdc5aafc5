#ifndef TUTTI_TOOLS_COMMANDS_INFO_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_INFO_COMMAND_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/cluster/command.h"
#include "tools/cluster/gpus.h"
#include "tutti/implementation.h"

namespace tutti {

// Properties of this build and of the machine.
struct BuildInfo {
  std::string version;
  std::string compiler;
  bool optimized = false;
  std::vector<std::string> simd;  // Supported by this CPU; uses the first.
  std::string sanitizer;          // Empty: none.
  std::string processor;          // Model; empty if unknown.
  int num_processors = 0;
  int64_t memory_bytes = 0;

  // Linked-in transports and devices besides the CPU's.
  std::vector<std::string> extensions;
  std::vector<std::string> missing_extensions;
  bool has_cuda_aware_mpi = false;    // According to MPI's header.
  bool is_started_by_mpirun = false;  // This process.

  GpuReport gpus;
};

BuildInfo ThisBuild();

// Table of all times (kTimes).
std::string FormatTimes();

// Text for people: the build, the dtypes of each collective by place
// (SupportOf()), and tables of all algorithms. Says why an algorithm cannot run
// here (WhyNotHere()).
std::string FormatInfo(const BuildInfo& build,
                       const CollectiveRegistry& registry);

// Same content as JSON: {version, build, processors, ..., algorithms: [...]}.
nlohmann::ordered_json InfoAsJson(const BuildInfo& build,
                                  const CollectiveRegistry& registry);

// Returns the reason why this process cannot run the implementation on any
// group of this machine's devices: a missing part, GPU, library or mpirun.
// Empty if none of these is missing. Pure.
std::string WhyNotHere(const ImplementationTraits& traits,
                       const BuildInfo& build);

// `tutti info`: shows the build, the machine, what runs where and the
// registered algorithms.
Command AddInfoCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_INFO_COMMAND_H_
