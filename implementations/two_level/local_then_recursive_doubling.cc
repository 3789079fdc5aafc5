#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRecursiveDoubling,
                    Hierarchical<"LocalReduce", "RecursiveDoublingReduce">());

}  // namespace
}  // namespace tutti
