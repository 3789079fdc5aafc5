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

// Names that rank zero remembers what was asked for under, each in a slot.
inline constexpr uint32_t kMaxTensorSlots = 16384;

// What one rank may have asked for that has not been decided yet.
inline constexpr size_t kMaxPendingRequests = 65536;
inline constexpr size_t kMaxPendingNameBytes = size_t{64} << 20;

// What one rank wants done with the tensor of that name. A value.
struct TensorRequest {
  std::string name;
  CollectiveType type = CollectiveType::kAllReduce;  // Or kAllGather.
  DType dtype = DType::kFloat32;
  TensorShape shape;     // Of this rank's tensor.
  std::string merge_op;  // Empty where nothing is reduced.

  friend bool operator==(const TensorRequest&, const TensorRequest&) = default;
};

// A name as texts show it: with escapes, and only the beginning of a long one.
std::string Quoted(absl::string_view name);

// Errors: INVALID_ARGUMENT for an empty or too long name, a dtype that is none,
// a collective that does not go by name, too many dimensions or bytes, and a
// merge op where nothing is reduced or none, or a long name of one, where it
// is.
absl::Status Validate(const TensorRequest& request);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_
