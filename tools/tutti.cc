// The `tutti` command line tool: tool.h.

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/commands/tool.h"

namespace {

// Else what is opened next would take the place of one that is closed, and get
// what is printed. Writing stays an error.
void KeepStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardDescriptors();
  // What cannot be written is an error, after which temporary files go.
  for (int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  return tutti::RunTool(
      argc, argv,
      {std::cout, std::cerr, isatty(STDERR_FILENO) == 1, STDOUT_FILENO});
}
