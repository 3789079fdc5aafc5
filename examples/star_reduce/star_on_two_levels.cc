// All-reduces on two levels that docs/add_an_algorithm.md shows.

#include "framework/registry.h"
#include "implementations/hierarchical.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(ShuffleThenStar,
                    Hierarchical<"DirectReduceScatter", "StarReduce">());
REGISTER_COLLECTIVE(LocalThenStar, Hierarchical<"LocalReduce", "StarReduce">());

}  // namespace
}  // namespace tutti
