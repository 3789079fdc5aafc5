// Library to load before the C library: the system's time is then off by the
// nanoseconds in the file that the variable WALL_CLOCK_FOR_TESTS names, eight
// bytes, which a test may change at any time. Monotonic clocks stay right.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

const std::atomic<int64_t>* Offset() {
  static const auto* const offset = [] {
    const char* const name = std::getenv("WALL_CLOCK_FOR_TESTS");
    const int file = name == nullptr ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void* const page =
        mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) std::abort();
    close(file);
    return static_cast<const std::atomic<int64_t>*>(page);
  }();
  return offset;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return 0;
  const int64_t now = time->tv_sec * kSecond + time->tv_nsec + Offset()->load();
  time->tv_sec = now / kSecond;
  time->tv_nsec = now % kSecond;
  return 0;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* into) noexcept {
  timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (into != nullptr) *into = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
