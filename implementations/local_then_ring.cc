#include "framework/registry.h"
#include "implementations/local_then.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRing, LocalThenFactory<"RingReduce">());

}  // namespace
}  // namespace tutti
