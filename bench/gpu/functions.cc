// Own definitions of what glibc 2.28 does not have.

#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

extern "C" {

// Since glibc 2.36. For std::random_device, which nothing here uses.
uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return number;
}

// Since glibc 2.33: before, the headers called others, which newer ones no
// longer know. On x86-64 the kernel fills the same struct.
int stat(const char* file, struct stat* buf) {
  return static_cast<int>(syscall(SYS_stat, file, buf));
}

int lstat(const char* file, struct stat* buf) {
  return static_cast<int>(syscall(SYS_lstat, file, buf));
}

int fstat64(int fd, struct stat64* buf) {
  return static_cast<int>(syscall(SYS_fstat, fd, buf));
}

// Since glibc 2.32. Whether reference counts need no atomic operations: never
// true here, which is always right.
extern const char __libc_single_threaded;
const char __libc_single_threaded = 0;

}  // extern "C"
