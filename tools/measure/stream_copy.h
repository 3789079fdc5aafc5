#ifndef TUTTI_TOOLS_MEASURE_STREAM_COPY_H_
#define TUTTI_TOOLS_MEASURE_STREAM_COPY_H_

#include <cstddef>

namespace tutti {

// Copies as memcpy does, but leaves the written bytes in memory and in no cache
// if the CPU supports it: uses non-temporal stores with the widest vectors of
// the CPU. Other threads see the bytes as they see ordinary stores.
void StreamCopy(std::byte* into, const std::byte* from, size_t num_bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_STREAM_COPY_H_
