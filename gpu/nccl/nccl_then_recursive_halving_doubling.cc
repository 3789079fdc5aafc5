#include "gpu/nccl/nccl_then.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(NcclThenRecursiveHalvingDoubling,
                    NcclThenFactory("RecursiveHalvingDoublingReduce"));

}  // namespace
}  // namespace tutti
