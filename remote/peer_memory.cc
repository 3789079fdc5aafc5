#include "remote/peer_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace tutti {

// Inverts the challenge: the reader's own memory has the challenge too.
MemoryProof::MemoryProof(const MemoryChallenge& challenge, int task)
    : answer{~challenge[0], ~challenge[1]}, task(static_cast<uint64_t>(task)) {}

MemoryPlace MemoryLease::PlaceOf(absl::Span<const std::byte> bytes) const {
  return {.address = reinterpret_cast<uintptr_t>(bytes.data()),
          .num_bytes = bytes.size(),
          .lease_address = reinterpret_cast<uintptr_t>(&word_),
          .lease = word_.load(std::memory_order_relaxed)};
}

void MemoryLease::Clear() {
  word_.store(0, std::memory_order_relaxed);
  // Order: a reader that still sees the lease sees no later write to the bytes.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::optional<PeerMemory> PeerMemory::Of(pid_t process) {
  if (process <= 0) return std::nullopt;
  return PeerMemory(process);
}

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
    // Never dereferenced here: the kernel looks it up in the other process.
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

absl::Span<const std::byte> LoanReader::ReadNext(absl::Span<std::byte> into,
                                                 MemoryBlock& block) {
  const size_t num_left = place_.num_bytes - num_read_;
  const absl::Span<std::byte> bytes =
      into.empty()
          ? absl::MakeSpan(block.bytes)
                .first(std::min(kMemoryBlockBytes, num_left))
          : into.subspan(num_read_, std::min(kMemoryDirectBytes, num_left));
  if (!memory_.Read(place_.address + num_read_, bytes)) return {};
  num_read_ += bytes.size();
  return bytes;
}

std::optional<uint64_t> LoanReader::ReadLease() const {
  uint64_t lease = 0;
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(&lease), sizeof(lease));
  if (!memory_.Read(place_.lease_address, bytes)) return std::nullopt;
  return lease;
}

}  // namespace tutti
