#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// A ring through the tasks: 2 (T - 1) steps between them, in which every device
// sends to that of the next task only.
REGISTER_COLLECTIVE(
    HierarchicalRingReduce,
    Hierarchical<"RecursiveHalvingReduceScatter", "RingReduce">());

}  // namespace
}  // namespace tutti
