#ifndef TUTTI_REMOTE_PEER_MEMORY_H_
#define TUTTI_REMOTE_PEER_MEMORY_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/environment.h"

namespace tutti {

// How processes of one host read bytes where another one has lent them, without
// a copy on the way (process_vm_readv(2)). The system lets processes of one
// user, where nothing else forbids it.
//
// Whoever reads first makes sure, by a proof, whose memory it is. What is lent
// has a lease: a word that has its value as long as the bytes are lent. Whoever
// finds it there after all bytes were read has read the right ones; otherwise
// what was read is not to be used.

// Names this host and, on it, the space of process ids that this process lives
// in: two processes with the same name may try to read each other's memory.
// Empty if it cannot be told.
std::string NameOfHost();

// Random bytes, that are not those of another process or stream.
using MemoryChallenge = std::array<uint64_t, 2>;

std::string Encode(const MemoryChallenge& challenge);
std::optional<MemoryChallenge> DecodeChallenge(absl::string_view bytes);

// What a process must have in its memory before another one reads there: the
// answer to a challenge, in its own name. Where whoever reads has drawn the
// challenge, nobody can pass off the memory of a third process, or of the one
// that reads, as theirs.
struct MemoryProof {
  MemoryProof() = default;
  MemoryProof(const MemoryChallenge& challenge, int task);
  friend bool operator==(const MemoryProof&, const MemoryProof&) = default;

  MemoryChallenge answer = {};
  uint64_t task = 0;
};

// How a process's memory can be read, and where to find proof that it is its.
struct MemoryOffer {
  uint64_t pid = 0;  // 0: it cannot.
  uint64_t address = 0;
};

// Where bytes lie that are lent. They are as long as `lease`, which is not 0,
// is at `lease_address`.
struct MemoryPlace {
  uint64_t address = 0;
  uint64_t num_bytes = 0;
  uint64_t lease_address = 0;
  uint64_t lease = 0;
};

// The lease of bytes of this process. Cleared before they are given back.
class MemoryLease {
 public:
  // Its value is random: not what another process may have there that has got
  // our process id, nor what later lies where the lease was.
  explicit MemoryLease(Random& random) : word_(random.Next() | 1) {}
  MemoryLease(const MemoryLease&) = delete;
  MemoryLease& operator=(const MemoryLease&) = delete;

  // The bytes, under this lease.
  MemoryPlace PlaceOf(absl::Span<const std::byte> bytes) const;

  void Clear();

 private:
  std::atomic<uint64_t> word_;
};

// The memory of another process on this host. Thread-safe.
class PeerMemory {
 public:
  // Nothing if what is offered cannot be read, whatever the reason, or is not
  // the proof for this challenge of this task.
  static std::optional<PeerMemory> Open(const MemoryOffer& offer,
                                        const MemoryChallenge& challenge,
                                        int task);

  // Copies what lies at `address` there. False if not all of it can be read.
  bool Read(uint64_t address, absl::Span<std::byte> to) const;

 private:
  explicit PeerMemory(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

// Of what is read from another task's memory at a time: stays in the cache
// until the borrower has it. A multiple of the size of every element.
inline constexpr size_t kMemoryBlockBytes = size_t{256} << 10;

// The same where they go at once: other transfers wait meanwhile.
inline constexpr size_t kMemoryDirectBytes = size_t{1} << 20;

struct alignas(64) MemoryBlock {
  std::array<std::byte, kMemoryBlockBytes> bytes;
};

// Reads what another process has lent, block by block. For one thread at a
// time.
class LentReader {
 public:
  LentReader(const PeerMemory& memory, const MemoryPlace& place)
      : memory_(memory), place_(place) {}

  size_t num_read() const { return num_read_; }
  bool has_all() const { return num_read_ == place_.num_bytes; }

  // The bytes that follow: in `into`, which is as long as all of them, at their
  // offset, or in `block` if it is empty. Nothing if they cannot be read.
  // REQUIRES: not has_all().
  absl::Span<const std::byte> ReadNext(absl::Span<std::byte> into,
                                       MemoryBlock& block);

  // Whether the bytes are lent still; if not, none of those that were read are
  // to be used.
  bool AreLent() const { return ReadLease() == place_.lease; }

  // Whether they are known not to be, so that whoever lent them knows why.
  bool WereTakenBack() const {
    const auto lease = ReadLease();
    return lease.has_value() && lease != place_.lease;
  }

 private:
  // What lies where the lease was; nothing if that cannot be read.
  std::optional<uint64_t> ReadLease() const;

  PeerMemory memory_;
  MemoryPlace place_;
  size_t num_read_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_PEER_MEMORY_H_
