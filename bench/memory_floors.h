#ifndef TUTTI_BENCH_MEMORY_FLOORS_H_
#define TUTTI_BENCH_MEMORY_FLOORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

// Buffers of one length, with as many outputs as inputs.
struct FloorBuffers {
  std::vector<const uint8_t*> inputs;
  std::vector<uint8_t*> outputs;
};

// Part of a floor that one worker runs: bytes [begin, end) of each buffer.
struct FloorPart {
  size_t begin = 0;
  size_t end = 0;
};

// Floors under an all-reduce: each accesses the memory that the all-reduce must
// access, in the simplest way, and reduces nothing. Parts may run at the same
// time.
using FloorFn = void (*)(const FloorBuffers& buffers, FloorPart part);

// Floor with separate outputs: copies each input to its output, with
// non-temporal stores.
void CopyPastCaches(const FloorBuffers& buffers, FloorPart part);

// Floor in place: reads and overwrites each output.
void Overwrite(const FloorBuffers& buffers, FloorPart part);

// Floor with one shared output: reads all inputs, and copies the last one to
// the first output, with non-temporal stores.
void ReadAllWriteOne(const FloorBuffers& buffers, FloorPart part);

// Floor in place and in the caches: copies half of each output's part to the
// other half and back, with plain stores. Reads and writes as much as
// Overwrite().
void CopyToAndFro(const FloorBuffers& buffers, FloorPart part);

}  // namespace tutti

#endif  // TUTTI_BENCH_MEMORY_FLOORS_H_
