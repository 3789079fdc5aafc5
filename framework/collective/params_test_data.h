#ifndef TUTTI_FRAMEWORK_COLLECTIVE_PARAMS_TEST_DATA_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_PARAMS_TEST_DATA_H_

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// REQUIRES: TensorShape::Create accepts the dimensions.
TensorShape ShapeOf(std::initializer_list<int64_t> dims);

// Returns a complete group of CPU devices, all in one task.
std::shared_ptr<const CollGroupParams> GroupOf(int size);

// Returns a resolver's answer to one member. REQUIRES: the instance fits the
// group.
std::shared_ptr<const CollectiveParams> ParamsOf(
    const CollInstanceParams& instance,
    std::shared_ptr<const CollGroupParams> group, int rank);
std::shared_ptr<const CollectiveParams> ParamsOf(
    const CollInstanceParams& instance, int group_size, int rank);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_PARAMS_TEST_DATA_H_
