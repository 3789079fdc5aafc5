// All-reduces on two levels that docs/add_an_algorithm.md shows.

#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(ShuffleThenStar,
                    Hierarchical<"DirectReduceScatter", "StarReduce">());
REGISTER_COLLECTIVE(LocalThenStar, Hierarchical<"LocalReduce", "StarReduce">());

}  // namespace
}  // namespace tutti
