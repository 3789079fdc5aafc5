#ifndef TUTTI_TOOLS_CLUSTER_COMMAND_H_
#define TUTTI_TOOLS_CLUSTER_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"

namespace tutti {

// A sub-command of the tool.
struct Command {
  // Its options and help. Parsing fills what `run` reads.
  CLI::App* app = nullptr;

  // Errors: a UsageError for what is wrong on the command line whatever the
  // machine holds; others for a run that failed.
  std::function<absl::Status(const Console&)> run;

  // Runs even where a registration failed; says so itself.
  bool tolerates_registration_errors = false;

  // Makes the next `run` one task of a cluster. Null if it cannot be.
  std::function<void(const ClusterOptions&)> join;

  // Not null: it runs another command, whose command line comes after "--" and
  // is put here as it is.
  std::shared_ptr<std::vector<std::string>> rest;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_COMMAND_H_
