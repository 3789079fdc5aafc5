#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Recursive halving and doubling between tasks: 2 ceil(log2 T) steps.
REGISTER_COLLECTIVE(HierarchicalHalvingDoublingReduce,
                    Hierarchical<"RecursiveHalvingReduceScatter",
                                 "RecursiveHalvingDoublingReduce">());

}  // namespace
}  // namespace tutti
