#ifndef TUTTI_FRAMEWORK_DEVICE_NEEDS_H_
#define TUTTI_FRAMEWORK_DEVICE_NEEDS_H_

#include <string>

#include "framework/implementation_traits.h"
#include "framework/params.h"

namespace tutti {

// Why the group's devices do not do for who has these needs, naming the first
// that does not; empty if they do. The group has members and layout. Pure.
std::string WhyNotOn(const CollGroupParams& group, const DeviceNeeds& needs);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEVICE_NEEDS_H_
