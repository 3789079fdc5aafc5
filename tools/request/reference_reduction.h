#ifndef TUTTI_TOOLS_REQUEST_REFERENCE_REDUCTION_H_
#define TUTTI_TOOLS_REQUEST_REFERENCE_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tools/request/collective_spec.h"
#include "tutti/tensor.h"

namespace tutti {

// What a reduction gives, one element after the other in the plainest way: in
// double or 64-bit integers, rounded once at the end. Equal to the library's
// results where those are exact, as on RandomElements(). Shares no code with
// the library's kernels.
class ReferenceReduction {
 public:
  // Of an operation that the dtype supports.
  ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                     int64_t num_elements);

  // What the next rank brings.
  void Add(absl::Span<const std::byte> elements);

  std::vector<std::byte> Result() const;

 private:
  // Chosen once, not for each element.
  double (*const combine_floating_)(double, double);
  int64_t (*const combine_integers_)(int64_t, int64_t);
  const bool is_average_;
  const DType dtype_;
  const int64_t num_elements_;
  int num_added_ = 0;
  std::vector<double> floating_;   // If the dtype is floating,
  std::vector<int64_t> integers_;  // else.
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_REFERENCE_REDUCTION_H_
