#include "framework/registry.h"
#include "implementations/local_then.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRecursiveHalvingDoubling,
                    LocalThenFactory<"RecursiveHalvingDoublingReduce">());

}  // namespace
}  // namespace tutti
