#include "remote/grpc/peer_memory.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tutti {

std::string NameOfHost() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat processes = {};
  if (!std::getline(file, boot) || boot.empty() ||
      stat("/proc/self/ns/pid", &processes) != 0) {
    return "";
  }
  return absl::StrCat(boot, ":", processes.st_dev, ":", processes.st_ino);
}

std::string Encode(const MemoryChallenge& challenge) {
  std::string bytes(sizeof(challenge), '\0');
  std::memcpy(bytes.data(), challenge.data(), bytes.size());
  return bytes;
}

std::optional<MemoryChallenge> DecodeChallenge(absl::string_view bytes) {
  MemoryChallenge challenge;
  if (bytes.size() != sizeof(challenge)) return std::nullopt;
  std::memcpy(challenge.data(), bytes.data(), bytes.size());
  return challenge;
}

// Not the challenge as it is, which the memory of whoever drew it has too.
MemoryProof::MemoryProof(const MemoryChallenge& challenge, int task)
    : answer{~challenge[0], ~challenge[1]}, task(static_cast<uint64_t>(task)) {}

std::optional<PeerMemory> PeerMemory::Open(const MemoryOffer& offer,
                                           const MemoryChallenge& challenge,
                                           int task) {
  if (offer.pid == 0 || offer.pid > std::numeric_limits<pid_t>::max()) {
    return std::nullopt;
  }
  const PeerMemory memory(static_cast<pid_t>(offer.pid));
  MemoryProof found;
  if (!memory.Read(offer.address,
                   absl::MakeSpan(reinterpret_cast<std::byte*>(&found),
                                  sizeof(found))) ||
      found != MemoryProof(challenge, task)) {
    return std::nullopt;
  }
  return memory;
}

bool PeerMemory::Read(uint64_t address, absl::Span<std::byte> to) const {
  while (!to.empty()) {
    const iovec local = {.iov_base = to.data(), .iov_len = to.size()};
    // Never followed here: the kernel looks it up in the other process.
    iovec remote = {.iov_base = nullptr, .iov_len = to.size()};
    static_assert(sizeof(remote.iov_base) == sizeof(address));
    std::memcpy(&remote.iov_base, &address, sizeof(address));
    const ssize_t n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (n <= 0) return false;
    to.remove_prefix(static_cast<size_t>(n));
    address += static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace tutti
