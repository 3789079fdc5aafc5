#ifndef TUTTI_TOOLS_BASE_AVAILABLE_MEMORY_H_
#define TUTTI_TOOLS_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace tutti {

// Number of bytes that this process can expect to get: the lowest of the
// kernel's MemAvailable and the limits of the process's control groups (version
// 1 or 2). Ignores values that cannot be read; returns the largest int64_t if
// none can. `root` holds proc/ and sys/; tests pass their own.
int64_t AvailableMemory(const std::string& root = "/");

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_AVAILABLE_MEMORY_H_
