#include "implementations/direct_reduce_scatter.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/shuffle_reduce.h"

namespace tutti {
namespace {

// HierarchicalReduce with a shuffle on both levels: every device reduces its
// block of all inputs of the task in rank order, then a piece of the blocks of
// all tasks. 1 + ceil(log2 T) steps between tasks.
constexpr ReduceLevels kLevels = {
    .inside = {PlanDirectReduceScatter, DirectReduceScatterTraffic},
    .across = {PlanShuffleReduce, ShuffleReduceTraffic}};

REGISTER_COLLECTIVE(
    ShuffleThenShuffle,
    HierarchicalReduce<kLevels>(
        "a shuffle within tasks and one across them: one round, then "
        "1 + log2 T steps between tasks"));

}  // namespace
}  // namespace tutti
