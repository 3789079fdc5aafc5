#ifndef TUTTI_TOOLS_LAUNCH_OWN_ADDRESS_H_
#define TUTTI_TOOLS_LAUNCH_OWN_ADDRESS_H_

#include <string>

namespace tutti {

// Whether `host` is a numeric address, "10.0.0.1" or "::1", that this machine
// does not have. False for a name, which other machines may resolve
// differently.
bool IsAddressOfAnotherMachine(const std::string& host);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_OWN_ADDRESS_H_
