#include "implementations/direct_reduce_scatter.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/ring_reduce.h"

namespace tutti {
namespace {

// HierarchicalReduce with a shuffle inside tasks: every device reduces its
// block of all inputs of the task in rank order, in one round. Then a ring
// through the tasks, as HierarchicalRingReduce.
constexpr ReduceLevels kLevels = {
    .inside = {PlanDirectReduceScatter, DirectReduceScatterTraffic},
    .across = {PlanRingReduce, RingReduceTraffic}};

REGISTER_COLLECTIVE(
    ShuffleThenRing,
    HierarchicalReduce<kLevels>(
        "a shuffle within tasks, a ring across them: one round, then 2 (T - 1) "
        "steps between tasks"));

}  // namespace
}  // namespace tutti
