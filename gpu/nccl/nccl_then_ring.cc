#include "gpu/nccl/nccl_then.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(NcclThenRing, NcclThenFactory("RingReduce"));

}  // namespace
}  // namespace tutti
