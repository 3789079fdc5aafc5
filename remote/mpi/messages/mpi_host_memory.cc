#include "remote/mpi/messages/mpi_host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "remote/mpi/messages/mpi_requests.h"

namespace tutti {
namespace {

// Place of a file for other processes, with its identity: the process id may be
// of a different pid namespace.
struct Place {
  int32_t pid = 0;
  int32_t file = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
};

bool IsThere(const Place& place, const struct stat& found) {
  return found.st_dev == place.device && found.st_ino == place.inode;
}

// Returns a negative number on failure.
int MakeFile(size_t num_bytes, Place* place) {
  const int file = memfd_create("tutti", MFD_CLOEXEC);
  if (file < 0) return file;
  struct stat made = {};
  if (ftruncate(file, static_cast<off_t>(num_bytes)) == 0 &&
      fstat(file, &made) == 0) {
    *place = {.pid = getpid(),
              .file = file,
              .device = made.st_dev,
              .inode = made.st_ino};
  }
  return file;
}

// Opens the file, if it is ours. Returns a negative number on failure.
int OpenFile(const Place& place) {
  const std::string path =
      absl::StrCat("/proc/", place.pid, "/fd/", place.file);
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0 || !IsThere(place, found)) return -1;
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

absl::Status MpiHostMemory::Share(MPI_Comm local, size_t num_bytes) {
  int index = 0;
  MPI_Comm_rank(local, &index);
  Place place;
  int file = index == 0 ? MakeFile(num_bytes, &place) : -1;
  absl::Status status = MpiStatus(
      MPI_Bcast(&place, sizeof(place), MPI_BYTE, 0, local), "MPI_Bcast");
  if (index > 0) file = OpenFile(place);
  Map(file, num_bytes);
  int all_have_it = bytes_ != nullptr ? 1 : 0;
  status.Update(MpiStatus(
      MPI_Allreduce(MPI_IN_PLACE, &all_have_it, 1, MPI_INT, MPI_MIN, local),
      "MPI_Allreduce"));
  if (file >= 0) close(file);
  if (!status.ok() || all_have_it == 0) Unmap();
  return status;
}

// Maps the file if it is long enough: access beyond its end would be a fault.
void MpiHostMemory::Map(int file, size_t num_bytes) {
  struct stat found = {};
  const bool is_whole = file >= 0 && fstat(file, &found) == 0 &&
                        static_cast<size_t>(found.st_size) >= num_bytes;
  if (!is_whole) return;
  void* const mapped = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED, file, /*offset=*/0);
  if (mapped == MAP_FAILED) return;
  bytes_ = static_cast<std::byte*>(mapped);
  num_bytes_ = num_bytes;
}

void MpiHostMemory::Unmap() {
  if (bytes_ != nullptr) munmap(bytes_, num_bytes_);
  bytes_ = nullptr;
}

}  // namespace tutti
