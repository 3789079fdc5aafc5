// The `tutti` command line tool: tool.h.

#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/tool.h"

int main(int argc, char** argv) {
  // What cannot be written is an error, after which temporary files go.
  for (int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  return tutti::RunTool(argc, argv,
                        {std::cout, std::cerr, isatty(STDERR_FILENO) == 1});
}
