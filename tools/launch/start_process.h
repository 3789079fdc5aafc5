#ifndef TUTTI_TOOLS_LAUNCH_START_PROCESS_H_
#define TUTTI_TOOLS_LAUNCH_START_PROCESS_H_

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti {

struct Program {
  std::vector<std::string> words;        // The first one is the path of a file.
  std::vector<std::string> environment;  // "NAME=value", added to ours.
};

// Initial state of a new process.
struct ProcessStart {
  int out = -1;        // Becomes its standard output.
  int err = -1;        // Becomes its standard error.
  sigset_t mask = {};  // Blocked signals.
};

// Runs the program in a child process. The child leads its own process group,
// has an empty standard input, and takes the default action on SIGPIPE and
// SIGXFSZ. The kernel kills the child when the calling thread ends. Errors:
// those of the system, naming the program.
absl::StatusOr<pid_t> StartProcess(const Program& program,
                                   const ProcessStart& start);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_START_PROCESS_H_
