#include "framework/registry.h"
#include "implementations/local_then.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenRecursiveDoubling,
                    LocalThenFactory<"RecursiveDoublingReduce">());

}  // namespace
}  // namespace tutti
