#ifndef TUTTI_TOOLS_COMMANDS_INFO_H_
#define TUTTI_TOOLS_COMMANDS_INFO_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/cluster/gpus.h"
#include "tutti/implementation.h"

namespace tutti {

// What this build is and what it runs on.
struct BuildInfo {
  std::string version;
  std::string compiler;
  bool optimized = false;
  std::vector<std::string> simd;  // That this CPU has; the first one is used.
  std::string sanitizer;          // Empty: none.
  std::string processor;          // Its model; empty if unknown.
  int num_processors = 0;
  int64_t memory_bytes = 0;

  // Transports and devices that were linked in besides the CPU's.
  std::vector<std::string> extensions;
  std::vector<std::string> missing_extensions;
  bool has_cuda_aware_mpi = false;  // As its header says.

  GpuReport gpus;
};

BuildInfo ThisBuild();

// For people: the build, then a table of algorithms.
std::string FormatInfo(const BuildInfo& build,
                       const CollectiveRegistry& registry);

// The same: {version, build, processors, ..., algorithms: [...]}.
nlohmann::ordered_json InfoAsJson(const BuildInfo& build,
                                  const CollectiveRegistry& registry);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_INFO_H_
