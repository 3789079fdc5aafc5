#include "tools/base/console.h"

#include <algorithm>

namespace tutti {

void Progress::Show(const std::string& text) {
  if (!console_.err_is_terminal || (text.empty() && shown_ == 0)) return;
  const std::string rest(shown_ - std::min(shown_, text.size()), ' ');
  console_.err << '\r' << text << rest;
  if (text.empty()) console_.err << '\r';
  console_.err << std::flush;
  shown_ = text.size();
}

}  // namespace tutti
