#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_EXCHANGE_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"

namespace tutti {

// A pass that copies blocks from one member to another. Members may run in
// place: one block then overwrites bytes that another block still has to read.
// The line is the line of blocks.
class LocalExchange : public LocalPass {
 public:
  explicit LocalExchange(absl::Span<const Attendee> members);

 protected:
  struct Move {
    const uint8_t* from = nullptr;
    uint8_t* to = nullptr;
  };

  // Appends a block that no other block overwrites.
  void Append(Move move, int64_t num_bytes);

  // Appends a cycle of blocks of one size. Each block may overwrite the bytes
  // that the next block reads, and the last block the bytes that the first
  // block reads.
  void AppendCycle(absl::Span<const Move> cycle, int64_t num_bytes);

  // Copies a block that no other block overwrites.
  void Copy(Move move, int64_t num_bytes) const;

  // Copies a range of the bytes of each block of a cycle.
  void CopyCycle(absl::Span<const Move> cycle, ByteRange range) const;

  int64_t num_bytes() const override { return num_bytes_; }
  absl::Status Run(ByteRange slice) const override;

 private:
  struct Cycle {
    size_t first = 0;  // Index of its first move.
    size_t size = 0;
    int64_t begin = 0;  // Offset in the line.
  };

  absl::InlinedVector<Move, kInlineBlocks> moves_;
  absl::InlinedVector<Cycle, kInlineBlocks> cycles_;
  int64_t num_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_EXCHANGE_H_
