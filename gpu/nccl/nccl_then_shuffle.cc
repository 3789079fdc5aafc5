#include "gpu/nccl/nccl_then.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(NcclThenShuffle, NcclThenFactory("ShuffleReduce"));

}  // namespace
}  // namespace tutti
