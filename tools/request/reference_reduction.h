#ifndef TUTTI_TOOLS_REQUEST_REFERENCE_REDUCTION_H_
#define TUTTI_TOOLS_REQUEST_REFERENCE_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "tools/request/collective_spec.h"
#include "tutti/tensor.h"

namespace tutti {

// Reference result of a reduction, computed one element after the other in
// double or 64-bit integers and rounded once at the end. Equals the library's
// result if that is exact, as on RandomElements(). Shares no code with the
// library's kernels.
class ReferenceReduction {
 public:
  // The dtype must support the operation.
  ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                     int64_t num_elements);

  // Adds the input of the next rank.
  void Add(absl::Span<const std::byte> elements);

  std::vector<std::byte> Result() const;

 private:
  const CollectiveSpec spec_;
  const DType dtype_;
  int num_added_ = 0;
  std::variant<std::vector<double>, std::vector<int64_t>, std::vector<uint64_t>>
      values_;  // Vector of the ValueOf (element.h) the dtype's elements.
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_REFERENCE_REDUCTION_H_
