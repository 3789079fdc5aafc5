#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// A shuffle inside tasks: every device reduces its block of all the task's
// inputs in rank order, in one round. Then recursive halving and doubling
// between tasks, as HierarchicalHalvingDoublingReduce.
REGISTER_COLLECTIVE(
    ShuffleThenRecursiveHalvingDoubling,
    Hierarchical<"DirectReduceScatter", "RecursiveHalvingDoublingReduce">());

}  // namespace
}  // namespace tutti
