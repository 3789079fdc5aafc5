#ifndef TUTTI_TOOLS_BASE_CONSOLE_H_
#define TUTTI_TOOLS_BASE_CONSOLE_H_

#include <ostream>

namespace tutti {

// Output streams of a command. Results go only to `out`, so that it can be
// piped; progress goes only to `err`, and only if `err` is a terminal.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_CONSOLE_H_
