#ifndef TUTTI_FRAMEWORK_CHOICE_DEVICE_NEEDS_H_
#define TUTTI_FRAMEWORK_CHOICE_DEVICE_NEEDS_H_

#include <string>

#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// Whether a link leads from the one to the other, or both are on one piece of
// hardware.
bool Reaches(const DeviceAttributes& from, const DeviceAttributes& to);

// Why the group's devices do not do for who has these needs, naming the first
// that does not; empty if they do. The group has members and layout. Pure.
std::string WhyNotOn(const CollGroupParams& group, const DeviceNeeds& needs);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CHOICE_DEVICE_NEEDS_H_
