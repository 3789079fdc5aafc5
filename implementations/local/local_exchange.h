#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_EXCHANGE_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"

namespace tutti {

// A pass that copies blocks from one member to another, also where members run
// in place, so that what one block overwrites is what the next one reads. The
// line is that of the blocks.
class LocalExchange : public LocalPass {
 public:
  explicit LocalExchange(absl::Span<const Attendee> members);

 protected:
  struct Move {
    const uint8_t* from = nullptr;
    uint8_t* to = nullptr;
  };

  // A block that nothing else overwrites.
  void Append(Move move, int64_t num_bytes);

  // Blocks of one size, each of which may overwrite what the next one reads,
  // and the last one what the first one reads.
  void AppendCycle(absl::Span<const Move> cycle, int64_t num_bytes);

 private:
  struct Cycle {
    size_t first = 0;  // Index of its first move.
    size_t size = 0;
    int64_t begin = 0;  // In the line.
  };

  int64_t num_bytes() const override { return num_bytes_; }
  absl::Status Run(ByteRange slice) const override;
  void Copy(const Cycle& cycle, ByteRange range) const;

  absl::InlinedVector<Move, kInlineBlocks> moves_;
  absl::InlinedVector<Cycle, kInlineBlocks> cycles_;
  int64_t num_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_EXCHANGE_H_
