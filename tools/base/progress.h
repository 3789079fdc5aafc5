#ifndef TUTTI_TOOLS_BASE_PROGRESS_H_
#define TUTTI_TOOLS_BASE_PROGRESS_H_

#include <cstddef>
#include <string>

#include "tools/base/console.h"

namespace tutti {

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

#endif  // TUTTI_TOOLS_BASE_PROGRESS_H_
