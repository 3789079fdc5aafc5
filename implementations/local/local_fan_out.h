#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_FAN_OUT_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_FAN_OUT_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"

namespace tutti {

// A pass that copies blocks of inputs to the same place in every output. Each
// byte is read once and written to all outputs while it is in the cache. Small
// blocks are gathered first. The line is the line of an output.
class LocalFanOut : public LocalPass {
 public:
  explicit LocalFanOut(absl::Span<const Attendee> members);

 protected:
  // Appends the rank's input to the line.
  void Append(int rank, int64_t num_bytes);

 private:
  struct Block {
    int rank = 0;
    int64_t begin = 0;  // Offset in the line.
  };

  int64_t num_bytes() const override { return num_bytes_; }
  absl::Status Run(ByteRange slice) const override;

  // Copies a range of the line to all outputs.
  void Copy(const uint8_t* from, ByteRange range) const;

  absl::InlinedVector<Block, kInlineMembers> blocks_;
  int64_t num_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_FAN_OUT_H_
