#ifndef TUTTI_TOOLS_BASE_CONSOLE_H_
#define TUTTI_TOOLS_BASE_CONSOLE_H_

#include <cstddef>
#include <ostream>
#include <string>

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

// Shows the current activity in one line of a terminal, and removes it
// afterwards. Does nothing if standard error is not a terminal.
class Progress {
 public:
  explicit Progress(const Console& console) : console_(console) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Replaces the text shown before.
  void Show(const std::string& text);

  // Call it before printing anything else.
  void Clear() { Show(""); }

 private:
  const Console& console_;
  size_t shown_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_CONSOLE_H_
