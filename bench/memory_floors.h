#ifndef TUTTI_BENCH_MEMORY_FLOORS_H_
#define TUTTI_BENCH_MEMORY_FLOORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

// Buffers of one length; as many outputs as inputs.
struct FloorBuffers {
  std::vector<const uint8_t*> inputs;
  std::vector<uint8_t*> outputs;
};

// What a worker does of a floor: bytes [begin, end) of each buffer.
struct FloorPart {
  size_t begin = 0;
  size_t end = 0;
};

// The floors under an all-reduce: each touches what the all-reduce has to, in
// the plainest way there is, and reduces nothing. Parts may run at the same
// time.
using FloorFn = void (*)(const FloorBuffers& buffers, FloorPart part);

// Separate outputs: each input to its output, with non-temporal stores.
void CopyPastCaches(const FloorBuffers& buffers, FloorPart part);

// In place: each output is read and overwritten.
void Overwrite(const FloorBuffers& buffers, FloorPart part);

// One output that all share: all inputs are read, and the last one goes to the
// first output, with non-temporal stores.
void ReadAllWriteOne(const FloorBuffers& buffers, FloorPart part);

// In place, and in the caches: half of the part of each output to the other
// half and back, with plain stores. Reads and writes as much as Overwrite().
void CopyToAndFro(const FloorBuffers& buffers, FloorPart part);

}  // namespace tutti

#endif  // TUTTI_BENCH_MEMORY_FLOORS_H_
