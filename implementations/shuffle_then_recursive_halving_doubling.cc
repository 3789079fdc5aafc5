#include "implementations/direct_reduce_scatter.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/recursive_halving_doubling_reduce.h"

namespace tutti {
namespace {

// HierarchicalReduce with a shuffle inside tasks: every device reduces its
// block of all inputs of the task in rank order, in one round. Then recursive
// halving and doubling across tasks, as HierarchicalHalvingDoublingReduce.
constexpr ReduceLevels kLevels = {
    .inside = {PlanDirectReduceScatter, DirectReduceScatterTraffic},
    .across = {PlanRecursiveHalvingDoublingReduce,
               RecursiveHalvingDoublingReduceTraffic}};

REGISTER_COLLECTIVE(
    ShuffleThenRecursiveHalvingDoubling,
    HierarchicalReduce<kLevels>(
        "a shuffle within tasks, halving and doubling across them: one round, "
        "then 2 log2 T steps between tasks"));

}  // namespace
}  // namespace tutti
