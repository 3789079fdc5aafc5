#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRing, Hierarchical<"LocalReduce", "RingReduce">());

}  // namespace
}  // namespace tutti
