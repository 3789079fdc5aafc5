#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// A shuffle inside tasks: every device reduces its block of all the task's
// inputs in rank order, in one round. Then a ring through the tasks, as
// HierarchicalRingReduce.
REGISTER_COLLECTIVE(ShuffleThenRing,
                    Hierarchical<"DirectReduceScatter", "RingReduce">());

}  // namespace
}  // namespace tutti
