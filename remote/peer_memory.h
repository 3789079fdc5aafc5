#ifndef TUTTI_REMOTE_PEER_MEMORY_H_
#define TUTTI_REMOTE_PEER_MEMORY_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "tutti/environment.h"

namespace tutti {

// Reading of bytes in the memory of another process of the same host, without a
// copy on the way (process_vm_readv(2)). The system permits this between
// processes of one user, unless something else forbids it.
//
// A reader first makes sure whose memory it reads: by what the kernel says of
// the connection to the process, or by a proof in that memory. It never reads
// where a message alone says. Posted bytes have a lease: a word that keeps its
// value until the bytes are released. A reader reads all bytes and then the
// lease. If the lease is still there, the bytes are right. Otherwise the reader
// must discard them.

// Random bytes, different from those of any other process or stream.
using MemoryChallenge = std::array<uint64_t, 2>;

// Proof that a process must have in its memory before another process reads
// there: the answer to a challenge, with the task's number. The reader draws
// the challenge. No process can thus pass off the memory of a third process, or
// of the reader, as its own.
struct MemoryProof {
  MemoryProof() = default;
  MemoryProof(const MemoryChallenge& challenge, int task);
  friend bool operator==(const MemoryProof&, const MemoryProof&) = default;

  MemoryChallenge answer = {};
  uint64_t task = 0;
};

// Access to a process's memory, and the place of its proof.
struct MemoryOffer {
  uint64_t pid = 0;  // 0: the memory cannot be read.
  uint64_t address = 0;
};

// Place of posted bytes. They are valid as long as `lease`, which is not 0, is
// at `lease_address`.
struct MemoryPlace {
  uint64_t address = 0;
  uint64_t num_bytes = 0;
  uint64_t lease_address = 0;
  uint64_t lease = 0;
};

// Lease of bytes of this process. Clear it before the bytes are released.
class MemoryLease {
 public:
  // Sets a random value. Chance alone can repeat it: in a process that later
  // gets our pid, or in bytes that later lie at this address.
  explicit MemoryLease(Random& random) : word_(random.Next() | 1) {}
  MemoryLease(const MemoryLease&) = delete;
  MemoryLease& operator=(const MemoryLease&) = delete;

  // Returns the place of the bytes, under this lease.
  MemoryPlace PlaceOf(absl::Span<const std::byte> bytes) const;

  void Clear();

 private:
  std::atomic<uint64_t> word_;
};

// Memory of another process on this host. Thread-safe.
class PeerMemory {
 public:
  // Returns the memory of the process at the other side of a connection, as the
  // kernel says (ProcessAt in same_host_socket.h). Nothing if `process` is 0.
  // It can be this process only if that is the other side itself.
  static std::optional<PeerMemory> Of(pid_t process);

  // Returns nothing if the offered memory cannot be read for any reason. The
  // same if it is not the proof for this challenge and task.
  static std::optional<PeerMemory> Open(const MemoryOffer& offer,
                                        const MemoryChallenge& challenge,
                                        int task);

  // Copies the bytes at `address` there. Returns false if not all of them can
  // be read.
  bool Read(uint64_t address, absl::Span<std::byte> to) const;

 private:
  explicit PeerMemory(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

// Bytes read at a time from another task's memory: they stay in the cache until
// the receiver has them. A multiple of the size of every element.
inline constexpr size_t kMemoryBlockBytes = size_t{256} << 10;

// Bytes read at a time when they go directly to their place. Other transfers
// wait meanwhile.
inline constexpr size_t kMemoryDirectBytes = size_t{1} << 20;

struct alignas(64) MemoryBlock {
  std::array<std::byte, kMemoryBlockBytes> bytes;
};

// Reads the posted bytes of another process, block by block. For one thread at
// a time.
class LoanReader {
 public:
  LoanReader(const PeerMemory& memory, const MemoryPlace& place)
      : memory_(memory), place_(place) {}

  size_t num_read() const { return num_read_; }
  bool has_all() const { return num_read_ == place_.num_bytes; }

  // Reads the next bytes: into `into` at their offset, or into `block` if
  // `into` is empty. A non-empty `into` has the size of all bytes. Returns
  // nothing if the bytes cannot be read. REQUIRES: not has_all().
  absl::Span<const std::byte> ReadNext(absl::Span<std::byte> into,
                                       MemoryBlock& block);

  // Returns whether the bytes are still posted. If not, discard all bytes read.
  bool AreLoaned() const { return ReadLease() == place_.lease; }

  // Returns true if the bytes are known to be released. The sender then knows
  // the reason.
  bool WereTakenBack() const {
    const auto lease = ReadLease();
    return lease.has_value() && lease != place_.lease;
  }

 private:
  // Returns the word at the lease's address; nothing if it cannot be read.
  std::optional<uint64_t> ReadLease() const;

  PeerMemory memory_;
  MemoryPlace place_;
  size_t num_read_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_PEER_MEMORY_H_
