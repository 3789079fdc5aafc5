#include "framework/registry.h"
#include "implementations/hierarchical.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRecursiveDoubling,
                    Hierarchical<"LocalReduce", "RecursiveDoublingReduce">());

}  // namespace
}  // namespace tutti
