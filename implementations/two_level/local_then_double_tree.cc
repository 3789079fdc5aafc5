#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(LocalThenDoubleTree,
                    Hierarchical<"LocalReduce", "DoubleTreeReduce">());

}  // namespace
}  // namespace tutti
