// Loaded before the C library, has a process see the host name that the
// variable HOST_NAME_FOR_TESTS says: by names Open MPI tells hosts apart.

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
