#ifndef TUTTI_TOOLS_LAUNCH_START_PROCESS_H_
#define TUTTI_TOOLS_LAUNCH_START_PROCESS_H_

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti {

struct Program {
  std::vector<std::string> words;        // The first is the path of a file.
  std::vector<std::string> environment;  // "NAME=value", on top of ours.
};

// What a new process begins with.
struct ProcessStart {
  int out = -1;        // Becomes its standard output.
  int err = -1;        // Becomes its standard error.
  sigset_t mask = {};  // The signals that it has blocked.
};

// Runs the program in a child of this process that leads a process group of its
// own and reads nothing from its standard input. The kernel kills it when the
// calling thread ends. SIGPIPE and SIGXFSZ have their default effect in it.
// Errors: what the system says, naming the program.
absl::StatusOr<pid_t> StartProcess(const Program& program,
                                   const ProcessStart& start);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_START_PROCESS_H_
