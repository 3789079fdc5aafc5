// The `tutti` command line tool: tool.h.

#include <unistd.h>

#include <iostream>

#include "tools/tool.h"

int main(int argc, char** argv) {
  return tutti::RunTool(argc, argv,
                        {std::cout, std::cerr, isatty(STDERR_FILENO) == 1});
}
