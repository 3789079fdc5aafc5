#ifndef TUTTI_TOOLS_MEASURE_STREAM_COPY_H_
#define TUTTI_TOOLS_MEASURE_STREAM_COPY_H_

#include <cstddef>

namespace tutti {

// memcpy that leaves what it writes in memory and out of every cache, where the
// CPU allows it: non-temporal stores, with the widest vectors it has. Visible
// to other threads as ordinary stores are.
void StreamCopy(std::byte* into, const std::byte* from, size_t num_bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_STREAM_COPY_H_
