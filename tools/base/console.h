#ifndef TUTTI_TOOLS_BASE_CONSOLE_H_
#define TUTTI_TOOLS_BASE_CONSOLE_H_

#include <ostream>

#include "absl/status/status.h"

namespace tutti {

// Streams of a command. Results go to `out` alone, so that a user can pipe
// them; progress goes to `err`, and only to a terminal.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;

  // Descriptor of `out`, which tells why a write failed; -1 if there is none.
  int out_fd = -1;
};

// The error of a command whose results cannot be written to `out`.
inline absl::Status OutputLostError() {
  return absl::DataLossError("standard output cannot be written");
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_CONSOLE_H_
