#include "framework/registry.h"
#include "implementations/hierarchical.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(
    LocalThenRecursiveHalvingDoubling,
    Hierarchical<"LocalReduce", "RecursiveHalvingDoublingReduce">());

}  // namespace
}  // namespace tutti
