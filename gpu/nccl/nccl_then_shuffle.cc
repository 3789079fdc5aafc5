#include "framework/registry.h"
#include "gpu/nccl/nccl_then.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(NcclThenShuffle, NcclThenFactory("ShuffleReduce"));

}  // namespace
}  // namespace tutti
