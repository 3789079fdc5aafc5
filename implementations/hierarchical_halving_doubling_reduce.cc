#include "implementations/hierarchical_reduce.h"
#include "implementations/recursive_halving_doubling_reduce.h"
#include "implementations/recursive_halving_reduce_scatter.h"

namespace tutti {
namespace {

// HierarchicalReduce with recursive halving and doubling across tasks: 2
// ceil(log2 T) steps between them. Elsewhere known as local-then-halving-
// doubling.
constexpr ReduceLevels kLevels = {
    .inside = {PlanRecursiveHalvingReduceScatter,
               RecursiveHalvingReduceScatterTraffic},
    .across = {PlanRecursiveHalvingDoublingReduce,
               RecursiveHalvingDoublingReduceTraffic}};

REGISTER_COLLECTIVE(
    HierarchicalHalvingDoublingReduce,
    HierarchicalReduce<kLevels>(
        "within tasks, halving and doubling across them: fewest bytes between "
        "tasks, 2 log2 T steps"));

}  // namespace
}  // namespace tutti
