#include "framework/registry.h"
#include "gpu/nccl/nccl_then.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(NcclThenRecursiveHalvingDoubling,
                    NcclThenFactory("RecursiveHalvingDoublingReduce"));

}  // namespace
}  // namespace tutti
