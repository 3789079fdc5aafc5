// Library to load before the C library: the process then sees the host name in
// the variable HOST_NAME_FOR_TESTS. Open MPI distinguishes hosts by their
// names.

#include <unistd.h>

#include <cstdlib>
#include <cstring>

int gethostname(char* name, size_t len) noexcept {
  const char* const wanted = std::getenv("HOST_NAME_FOR_TESTS");
  if (len == 0) return 0;
  std::strncpy(name, wanted == nullptr ? "nowhere" : wanted, len - 1);
  name[len - 1] = '\0';
  return 0;
}
