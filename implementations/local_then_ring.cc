#include "framework/registry.h"
#include "implementations/hierarchical.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRing, Hierarchical<"LocalReduce", "RingReduce">());

}  // namespace
}  // namespace tutti
