// The `tutti` command line tool: tool.h.

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/commands/tool.h"

namespace {

// Opens closed standard descriptors on /dev/null: otherwise the next opened
// file would take their place and receive the output. Opened for reading, so
// that writing stays an error.
void KeepStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardDescriptors();
  // Ignored, so that failed writes return an error, and temporary files are
  // removed.
  for (int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  return tutti::RunTool(
      argc, argv,
      {std::cout, std::cerr, isatty(STDERR_FILENO) == 1, STDOUT_FILENO});
}
