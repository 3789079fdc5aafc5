#ifndef TUTTI_REMOTE_GRPC_CONNECTION_FILE_DESCRIPTOR_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace tutti {

// Owns a file descriptor and closes it. A negative value means none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (is_set()) close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_set() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_FILE_DESCRIPTOR_H_
