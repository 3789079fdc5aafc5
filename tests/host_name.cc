// Loaded before the C library, has a process see the host name that the
// variable HOST_NAME_FOR_TESTS says: by names Open MPI tells hosts apart.

#include <unistd.h>

#include <cstdlib>
#include <cstring>

int gethostname(char* name, size_t size) noexcept {
  const char* const wanted = std::getenv("HOST_NAME_FOR_TESTS");
  if (size == 0) return 0;
  std::strncpy(name, wanted == nullptr ? "nowhere" : wanted, size - 1);
  name[size - 1] = '\0';
  return 0;
}
