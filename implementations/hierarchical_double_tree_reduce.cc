#include "implementations/double_tree_reduce.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/recursive_halving_reduce_scatter.h"

namespace tutti {
namespace {

// HierarchicalReduce with double trees across tasks: the first of about T / 2
// pieces of a block arrives after 3 ceil(log2 T) steps between them. A device
// sends 2 blocks to other tasks.
constexpr ReduceLevels kLevels = {
    .inside = {PlanRecursiveHalvingReduceScatter,
               RecursiveHalvingReduceScatterTraffic},
    .across = {PlanDoubleTreeReduceOfBlocks, DoubleTreeReduceOfBlocksTraffic}};

REGISTER_COLLECTIVE(
    HierarchicalDoubleTreeReduce,
    HierarchicalReduce<kLevels>(
        "within tasks, double trees across them: few bytes between tasks, "
        "3 log2 T steps and one per piece"));

}  // namespace
}  // namespace tutti
