#include "framework/registry.h"
#include "implementations/local_then.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenDoubleTree,
                    LocalThenFactory<"DoubleTreeReduce">());

}  // namespace
}  // namespace tutti
