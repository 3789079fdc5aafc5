#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Double trees between tasks: the first of about T / 2 pieces of a block
// arrives after 3 ceil(log2 T) steps. A device sends 2 blocks to other tasks.
REGISTER_COLLECTIVE(
    HierarchicalDoubleTreeReduce,
    Hierarchical<"RecursiveHalvingReduceScatter", "DoubleTreeReduce">());

}  // namespace
}  // namespace tutti
