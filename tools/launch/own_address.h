#ifndef TUTTI_TOOLS_LAUNCH_OWN_ADDRESS_H_
#define TUTTI_TOOLS_LAUNCH_OWN_ADDRESS_H_

#include <string>

namespace tutti {

// Whether `host`, "10.0.0.1" or "::1", is an address in numbers that this
// machine does not have. False of a name, which others may resolve otherwise.
bool IsAddressOfAnotherMachine(const std::string& host);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_OWN_ADDRESS_H_
