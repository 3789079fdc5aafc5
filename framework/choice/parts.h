#ifndef TUTTI_FRAMEWORK_CHOICE_PARTS_H_
#define TUTTI_FRAMEWORK_CHOICE_PARTS_H_

#include <string>

#include "tutti/implementation.h"

namespace tutti {

// Why CheckParts() fails, in words that follow the implementation's name; empty
// if it does not.
std::string WhyNotOfParts(const ImplementationTraits& traits);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CHOICE_PARTS_H_
