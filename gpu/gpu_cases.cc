#include "gpu/gpu_cases.h"

#include <algorithm>
#include <cstdint>

#include "framework/collective_type.h"
#include "framework/dtype.h"
#include "framework/registry.h"
#include "schedule/algorithm.h"

namespace tutti {

using conformance::Case;
using conformance::ImplementationUnderTest;

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : CollectiveRegistry::Global().List()) {
    if (AlgorithmOf(*factory) != nullptr) names.push_back(name);
  }
  return names;
}

ImplementationUnderTest ScheduleNamed(const std::string& name) {
  ImplementationUnderTest under_test;
  under_test.name = name;
  for (const auto& [other, factory] : CollectiveRegistry::Global().List()) {
    if (other == name) under_test.factory = factory;
  }
  under_test.algorithm = AlgorithmOf(*under_test.factory);
  under_test.quick = true;
  return under_test;
}

bool RunsAlike(const Case& c) {
  const bool rounds = IsFloating(c.dtype) && SizeOf(c.dtype) == 2;
  return !c.merge_op.is_custom() && !c.final_op.is_custom() &&
         (c.final_op.is_identity() || !rounds);
}

CaseBuffers MakeCaseBuffers(CudaDevice& device, const Case& c, int rank) {
  const auto allocate = [&](int64_t num_elements) {
    return device.Allocate(c.dtype, ShapeOf(c, num_elements)).value();
  };
  const bool gives_output =
      HasOutput(c.type, rank, c.root) && !c.allocates_output;
  const int64_t input_elements = InputElements(c, rank);
  const int64_t output_elements = OutputElements(c, rank);
  CaseBuffers buffers;
  if (!IsInPlace(c, rank)) {
    if (HasInput(c.type, rank, c.root))
      buffers.input = allocate(input_elements);
    if (gives_output) buffers.output = allocate(output_elements);
    return buffers;
  }
  const Tensor all = allocate(std::max(input_elements, output_elements));
  const auto part = [&](int64_t num_elements) {
    if (num_elements == all.num_elements()) return all;
    const int64_t begin = OwnBlockBegin(c, rank) / c.row_elements;
    return all.Slice(begin, begin + num_elements / c.row_elements).value();
  };
  buffers.input = part(input_elements);
  buffers.output = part(output_elements);
  return buffers;
}

Bytes Joined(absl::Span<const absl::Span<const std::byte>> pieces) {
  Bytes joined;
  for (const auto piece : pieces) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(piece.data());
    joined.insert(joined.end(), begin, begin + piece.size());
  }
  return joined;
}

}  // namespace tutti
