// What libstdc++.a wants of a newer C library than a target may have.

#include <sys/random.h>

#include <cstdint>

// Since glibc 2.36. For std::random_device, which nothing here uses.
extern "C" uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return number;
}
