#ifndef TUTTI_TESTS_CONFORMANCE_MEMBER_BUFFERS_H_
#define TUTTI_TESTS_CONFORMANCE_MEMBER_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/conformance/case.h"
#include "tutti/tensor.h"

namespace tutti::conformance {

// Bytes between guards that nobody may touch. Movable; the bytes stay where
// they are.
class GuardedMemory {
 public:
  // All bytes are `fill`. They begin `misalignment` bytes past a multiple of
  // kAlignment. REQUIRES: misalignment < kAlignment.
  GuardedMemory(size_t num_bytes, size_t misalignment, std::byte fill);

  absl::Span<std::byte> bytes() {
    return absl::MakeSpan(memory_).subspan(begin_, size_);
  }
  absl::Span<const std::byte> bytes() const {
    return absl::MakeConstSpan(memory_).subspan(begin_, size_);
  }

  bool GuardsAreIntact() const;

  static constexpr size_t kAlignment = 64;

 private:
  std::vector<std::byte> memory_;
  size_t begin_;
  size_t size_;
};

bool AllAre(absl::Span<const std::byte> bytes, std::byte value);

// Input and output of a member in one execution, laid out as in a caller's
// memory, with checks of both. All findings are text, empty if all is well.
class MemberBuffers {
 public:
  // `input` outlives this.
  MemberBuffers(const Case& c, int rank, const Bytes& input);
  MemberBuffers(const MemberBuffers&) = delete;
  MemberBuffers& operator=(const MemberBuffers&) = delete;

  // Arguments of the call. Unset if the member has none.
  const Tensor& input() const { return input_; }
  Tensor* output() { return &output_; }

  // After success: the output is `wanted`, pieces that follow each other, and
  // nothing besides has changed.
  std::string CheckOutput(
      absl::Span<const absl::Span<const std::byte>> wanted) const;

  // Always: guards are intact, and so is the input where it is not in place.
  std::string CheckUntouched() const;

  // The collective is over: writes over all memory and gives up the tensors.
  void TakeBack();

  // Once nothing runs any more: nobody has written since then, and nobody holds
  // on to the memory.
  std::string CheckTakenBack() const;

 private:
  void PlaceInPlace(size_t input_bytes, size_t output_bytes,
                    size_t block_begin);
  absl::Span<std::byte> AddMemory(size_t num_bytes);
  Tensor Wrap(const Case& c, absl::Span<std::byte> bytes);

  const Bytes& original_input_;
  const size_t misalignment_;
  std::vector<GuardedMemory> memories_;  // One if in place, else up to two.
  bool is_in_place_ = false;
  absl::Span<std::byte> input_bytes_;
  absl::Span<std::byte> output_bytes_;

  // Wrapped tensors whose deleter has not run. Outlives this where one does.
  const std::shared_ptr<std::atomic<int>> num_held_ =
      std::make_shared<std::atomic<int>>(0);
  Tensor input_;
  Tensor output_;
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_MEMBER_BUFFERS_H_
