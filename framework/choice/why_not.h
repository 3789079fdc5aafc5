#ifndef TUTTI_FRAMEWORK_CHOICE_WHY_NOT_H_
#define TUTTI_FRAMEWORK_CHOICE_WHY_NOT_H_

#include <string>

#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// True if a link leads from `from` to `to`, or both are on one piece of
// hardware.
bool Reaches(const DeviceAttributes& from, const DeviceAttributes& to);

// Returns the reason why the group's devices do not meet the needs, naming the
// first such device; empty if they do. The group has members and layout. Pure.
std::string WhyNotOn(const CollGroupParams& group, const DeviceNeeds& needs);

// Returns the reason why CheckParts() fails, as words that follow the
// implementation's name; empty if it is OK.
std::string WhyNotOfParts(const ImplementationTraits& traits);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CHOICE_WHY_NOT_H_
