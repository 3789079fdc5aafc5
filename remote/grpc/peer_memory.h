#ifndef TUTTI_REMOTE_GRPC_PEER_MEMORY_H_
#define TUTTI_REMOTE_GRPC_PEER_MEMORY_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/grpc/transfer_wire.h"

namespace tutti {

// Names this host and, on it, the space of process ids that this process lives
// in: two processes with the same name may try to read each other's memory.
// Empty if it cannot be told.
std::string NameOfHost();

// Random bytes, drawn by whoever wants to read, for one stream.
using MemoryChallenge = std::array<uint64_t, 2>;

std::string Encode(const MemoryChallenge& challenge);
std::optional<MemoryChallenge> DecodeChallenge(absl::string_view bytes);

// What a process must have in its memory before another one reads there. Only
// the process that was challenged has it: it answers the challenge in its own
// name. So nobody can pass off the memory of a third process, or of the one
// that reads, as theirs.
struct MemoryProof {
  MemoryProof() = default;
  MemoryProof(const MemoryChallenge& challenge, int task);
  friend bool operator==(const MemoryProof&, const MemoryProof&) = default;

  MemoryChallenge answer = {};
  uint64_t task = 0;
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

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_PEER_MEMORY_H_
