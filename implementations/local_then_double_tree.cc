#include "framework/registry.h"
#include "implementations/hierarchical.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenDoubleTree,
                    Hierarchical<"LocalReduce", "DoubleTreeReduce">());

}  // namespace
}  // namespace tutti
