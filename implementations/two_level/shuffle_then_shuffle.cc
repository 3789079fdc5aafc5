#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// A shuffle on both levels: every device reduces its block of all the task's
// inputs in rank order, then a piece of the blocks of all tasks. 1 + ceil(log2
// T) steps between tasks.
REGISTER_COLLECTIVE(ShuffleThenShuffle,
                    Hierarchical<"DirectReduceScatter", "ShuffleReduce">());

}  // namespace
}  // namespace tutti
