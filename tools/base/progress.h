#ifndef TUTTI_TOOLS_BASE_PROGRESS_H_
#define TUTTI_TOOLS_BASE_PROGRESS_H_

#include <cstddef>
#include <string>

#include "tools/base/console.h"

namespace tutti {

// One line on a terminal that says what goes on, and is gone afterwards. Does
// nothing where the errors do not go to a terminal.
class Progress {
 public:
  explicit Progress(const Console& console) : console_(console) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Instead of what it showed before.
  void Show(const std::string& text);

  // Before anything else is printed.
  void Clear() { Show(""); }

 private:
  const Console& console_;
  size_t shown_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_PROGRESS_H_
