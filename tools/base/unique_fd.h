#ifndef TUTTI_TOOLS_BASE_UNIQUE_FD_H_
#define TUTTI_TOOLS_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace tutti {

// Owns a file descriptor and closes it. A negative value means none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }

  int get() const { return fd_; }
  bool is_set() const { return fd_ >= 0; }

  void Reset() {
    if (is_set()) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_UNIQUE_FD_H_
