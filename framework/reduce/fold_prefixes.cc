#include "framework/reduce/fold_prefixes.h"

#include <algorithm>
#include <cstddef>

#include "framework/base/status_macros.h"
#include "framework/reduce/reduction_kernels.h"

namespace tutti {
namespace {

// Size of a tile of sums. The tiles of TileScan and those of an input and an
// output stay in a first-level cache of 32 KiB.
constexpr size_t kSumBytes = 4096;

// A built-in op of these dtypes computes in float32 and rounds the result.
bool IsWidened(DType dtype, const MergeOp& merge_op) {
  return IsFloating(dtype) && SizeOf(dtype) < sizeof(float) &&
         !merge_op.is_custom();
}

// Merges the same tile of one input after the other.
class TileScan {
 public:
  TileScan(DType dtype, const MergeOp& merge_op)
      : merge_op_(merge_op),
        kernels_(KernelsOfThisCpu()),
        index_(static_cast<size_t>(dtype)),
        is_widened_(IsWidened(dtype, merge_op)),
        sum_dtype_(is_widened_ ? DType::kFloat32 : dtype) {}

  // Most elements of a tile.
  int64_t max_elements() const {
    return static_cast<int64_t>(kSumBytes / SizeOf(sum_dtype_));
  }

  // Begins with the next tile.
  void Begin() { num_merged_ = 0; }

  // Merges the next input. The bytes of the first one stay valid.
  absl::Status Merge(const uint8_t* input, int64_t num_elements) {
    uint8_t* const into = sums_[num_merged_ % 2];
    int64_t num_sums = num_elements;
    if (num_merged_ == 0) first_ = input;
    if (is_widened_) {
      uint8_t* const widened = num_merged_ == 0 ? into : widened_;
      num_sums = static_cast<int64_t>(kernels_.widen[index_](
          input, widened, static_cast<size_t>(num_elements)));
      input = widened;
    }
    if (num_merged_++ == 0) {
      sum_ = input;
      return absl::OkStatus();
    }
    const uint8_t* const left = sum_;
    sum_ = into;
    return merge_op_.Apply(sum_dtype_, left, input, into, num_sums);
  }

  // Result of the inputs so far; valid until the next call, and while one more
  // input is merged. One input is its own result, bit by bit.
  const uint8_t* Result(int64_t num_elements) {
    if (num_merged_ == 1) return first_;
    if (!is_widened_) return sum_;
    kernels_.narrow[index_](sum_, narrowed_, static_cast<size_t>(num_elements));
    return narrowed_;
  }

 private:
  const MergeOp& merge_op_;
  const ReductionKernels& kernels_;
  const size_t index_;  // Of the dtype.
  const bool is_widened_;
  const DType sum_dtype_;
  int num_merged_ = 0;
  const uint8_t* first_ = nullptr;
  const uint8_t* sum_ = nullptr;  // Of `num_merged_` inputs.
  alignas(64) uint8_t sums_[2][kSumBytes];
  alignas(64) uint8_t widened_[kSumBytes];
  alignas(64) uint8_t narrowed_[kSumBytes / 2];
};

void Write(const uint8_t* result, size_t rank, int64_t begin, int64_t num_bytes,
           const PrefixBuffers& buffers) {
  uint8_t* const output = buffers.outputs[rank] + begin;
  if (output == result) return;
  const absl::Span<uint8_t* const> one(&output, 1), none;
  // In place, the line was just read and is in the caches.
  const bool is_near =
      !buffers.past_caches || output == buffers.inputs[rank] + begin;
  CopyToMany(result, is_near ? one : none, is_near ? none : one,
             static_cast<size_t>(num_bytes));
}

// Scans `num_bytes` bytes from `begin` on.
absl::Status ScanTile(const PrefixBuffers& buffers, int64_t begin,
                      int64_t num_bytes, int64_t num_elements, TileScan& scan) {
  scan.Begin();
  const size_t num_ranks = buffers.inputs.size();
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const bool is_wanted = buffers.outputs[rank] != nullptr;
    const bool is_last = rank + 1 == num_ranks;
    const uint8_t* result = nullptr;
    if (buffers.is_exclusive && is_wanted) result = scan.Result(num_elements);
    // In place, the output overwrites the input, so it comes after the merge.
    if (!buffers.is_exclusive || !is_last) {
      RETURN_IF_ERROR(scan.Merge(buffers.inputs[rank] + begin, num_elements));
    }
    if (!buffers.is_exclusive && is_wanted) result = scan.Result(num_elements);
    if (is_wanted) Write(result, rank, begin, num_bytes, buffers);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FoldPrefixes(DType dtype, const MergeOp& merge_op,
                          const PrefixBuffers& buffers) {
  TileScan scan(dtype, merge_op);
  const auto element_bytes = static_cast<int64_t>(SizeOf(dtype));
  const int64_t tile_bytes = scan.max_elements() * element_bytes;
  for (int64_t done = 0; done < buffers.num_bytes; done += tile_bytes) {
    const int64_t size = std::min(tile_bytes, buffers.num_bytes - done);
    RETURN_IF_ERROR(ScanTile(buffers, buffers.begin + done, size,
                             size / element_bytes, scan));
  }
  return absl::OkStatus();
}

}  // namespace tutti
