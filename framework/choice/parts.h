#ifndef TUTTI_FRAMEWORK_CHOICE_PARTS_H_
#define TUTTI_FRAMEWORK_CHOICE_PARTS_H_

#include <string>

#include "tutti/implementation.h"

namespace tutti {

// Returns the reason why CheckParts() fails, as words that follow the
// implementation's name; empty if it is OK.
std::string WhyNotOfParts(const ImplementationTraits& traits);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CHOICE_PARTS_H_
