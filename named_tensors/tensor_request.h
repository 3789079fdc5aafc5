#ifndef TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_
#define TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {

inline constexpr int kMaxTensorDims = 256;
inline constexpr size_t kMaxMergeOpNameBytes = 256;

// Most names whose requests rank zero remembers, each in a slot.
inline constexpr uint32_t kMaxTensorSlots = 16384;

// Bounds on the undecided requests of one rank.
inline constexpr size_t kMaxPendingRequests = 65536;
inline constexpr size_t kMaxPendingNameBytes = size_t{64} << 20;

// Request of one rank for the tensor of that name. A value.
struct TensorRequest {
  std::string name;
  CollectiveType type = CollectiveType::kAllReduce;  // Or kAllGather.
  DType dtype = DType::kFloat32;
  TensorShape shape;     // Shape of this rank's tensor.
  std::string merge_op;  // Empty if nothing is reduced.

  friend bool operator==(const TensorRequest&, const TensorRequest&) = default;
};

// Returns the name for messages: escaped, and cut if long.
std::string Quoted(absl::string_view name);

// Errors: INVALID_ARGUMENT for an empty or too long name, an invalid dtype, a
// collective without names, and too many dimensions or bytes. Also for a merge
// op on a gather, and for a missing or too long merge op on a reduction.
absl::Status Validate(const TensorRequest& request);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_
