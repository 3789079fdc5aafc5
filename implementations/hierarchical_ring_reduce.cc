#include "implementations/hierarchical_reduce.h"
#include "implementations/recursive_halving_reduce_scatter.h"
#include "implementations/ring_reduce.h"

namespace tutti {
namespace {

// HierarchicalReduce with a ring through the tasks: 2 (T - 1) steps between
// them, in which every device sends to that of the next task only. Elsewhere
// known as local-then-ring.
constexpr ReduceLevels kLevels = {
    .inside = {PlanRecursiveHalvingReduceScatter,
               RecursiveHalvingReduceScatterTraffic},
    .across = {PlanRingReduce, RingReduceTraffic}};

REGISTER_COLLECTIVE(
    HierarchicalRingReduce,
    HierarchicalReduce<kLevels>("within tasks, a ring across them: fewest "
                                "bytes between tasks, 2 (T - 1) "
                                "steps"));

}  // namespace
}  // namespace tutti
