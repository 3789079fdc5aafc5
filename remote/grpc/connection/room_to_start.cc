#include "remote/grpc/connection/room_to_start.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstddef>
#include <latch>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {
namespace {

// More than a task has before it reaches another one: 11 descriptors and 10
// threads (2 processors, November 2026).
constexpr int kDescriptorsAtStart = 16;
constexpr int kThreadsAtStart = 16;

absl::Status Lacks(absl::string_view what, int wanted, size_t found,
                   int error) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "gRPC needs ", wanted, " more ", what, " to start, and this process may ",
      "have ", found, ": ", std::generic_category().message(error)));
}

}  // namespace

absl::Status CheckRoomToStart() {
  std::vector<FileDescriptor> descriptors;
  for (int i = 0; i < kDescriptorsAtStart; ++i) {
    FileDescriptor descriptor(eventfd(0, EFD_CLOEXEC));
    if (!descriptor.is_set()) {
      return Lacks("descriptors", kDescriptorsAtStart, descriptors.size(),
                   errno);
    }
    descriptors.push_back(std::move(descriptor));
  }
  absl::Status status;
  std::latch over(1);
  std::vector<std::thread> threads;
  try {
    for (int i = 0; i < kThreadsAtStart; ++i) {
      threads.emplace_back([&over] { over.wait(); });
    }
  } catch (const std::system_error& error) {
    status =
        Lacks("threads", kThreadsAtStart, threads.size(), error.code().value());
  }
  over.count_down();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace tutti
