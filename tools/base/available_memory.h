#ifndef TUTTI_TOOLS_BASE_AVAILABLE_MEMORY_H_
#define TUTTI_TOOLS_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace tutti {

// How many bytes this process may hope to get: the least of what the kernel
// calls available and of the limits of the control groups that the process is
// in, of version 1 or 2, as far as they can be read. The largest int64_t if
// nothing can. `root` holds proc/ and sys/; tests bring their own.
int64_t AvailableMemory(const std::string& root = "/");

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_AVAILABLE_MEMORY_H_
