#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// A ring through the tasks: 2 (T - 1) steps between tasks. Every device sends
// only to the same device of the next task.
REGISTER_COLLECTIVE(
    HierarchicalRingReduce,
    Hierarchical<"RecursiveHalvingReduceScatter", "RingReduce">());

}  // namespace
}  // namespace tutti
