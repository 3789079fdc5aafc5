#ifndef TUTTI_TOOLS_CLUSTER_COMMAND_H_
#define TUTTI_TOOLS_CLUSTER_COMMAND_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"

namespace tutti {

// A sub-command of the tool.
struct Command {
  // Options and help of the command. Parsing fills the data that `run` reads.
  CLI::App* app = nullptr;

  // Errors: UsageError if the command line is wrong on every machine; others if
  // the run failed.
  std::function<absl::Status(const Console&)> run;

  // Whether `run` may be called after a failed registration, and reports it.
  bool tolerates_registration_errors = false;

  // Cluster in which the next `run` is one task. Null if the command cannot be
  // a task.
  std::shared_ptr<std::optional<ClusterOptions>> cluster;

  // Not null if the command runs another command: then the command line after
  // "--" is stored here unchanged.
  std::shared_ptr<std::vector<std::string>> rest;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_COMMAND_H_
