#include "tests/fuzz/fuzz_target.h"

#include <cstdio>
#include <cstdlib>

namespace tutti {

void Promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace tutti
