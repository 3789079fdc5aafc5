#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(
    LocalThenRecursiveHalvingDoubling,
    Hierarchical<"LocalReduce", "RecursiveHalvingDoublingReduce">());

}  // namespace
}  // namespace tutti
