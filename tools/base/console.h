#ifndef TUTTI_TOOLS_BASE_CONSOLE_H_
#define TUTTI_TOOLS_BASE_CONSOLE_H_

#include <ostream>

namespace tutti {

// Where a command writes. Results go to `out` alone, so that it can be piped;
// progress goes to `err`, and only where somebody watches.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_CONSOLE_H_
