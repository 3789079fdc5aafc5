#include "bench/memory_floors.h"

#include <algorithm>
#include <cstring>

#include "tools/measure/stream_copy.h"

// Highway compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/memory_floors.cc"
#include "hwy/foreach_target.h"
// Included after foreach_target.h, as Highway requires.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Inverts whole vectors.
void Invert(uint8_t* bytes, size_t num_bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t vector_bytes = hn::Lanes(d);
  for (size_t i = 0; i + vector_bytes <= num_bytes; i += vector_bytes) {
    hn::StoreU(hn::Not(hn::LoadU(d, bytes + i)), d, bytes + i);
  }
}

// Reads all whole vectors; the result depends on each of them.
uint8_t Read(const uint8_t* bytes, size_t num_bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t vector_bytes = hn::Lanes(d);
  auto all = hn::Zero(d);
  for (size_t i = 0; i + vector_bytes <= num_bytes; i += vector_bytes) {
    all = hn::Xor(all, hn::LoadU(d, bytes + i));
  }
  return hn::GetLane(all);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
namespace {

HWY_EXPORT(Invert);
HWY_EXPORT(Read);

void Stream(uint8_t* into, const uint8_t* from, size_t num_bytes) {
  StreamCopy(reinterpret_cast<std::byte*>(into),
             reinterpret_cast<const std::byte*>(from), num_bytes);
}

}  // namespace

void CopyPastCaches(const FloorBuffers& buffers, FloorPart part) {
  for (size_t i = 0; i < buffers.inputs.size(); ++i) {
    Stream(buffers.outputs[i] + part.begin, buffers.inputs[i] + part.begin,
           part.end - part.begin);
  }
}

void Overwrite(const FloorBuffers& buffers, FloorPart part) {
  for (uint8_t* output : buffers.outputs) {
    HWY_DYNAMIC_DISPATCH(Invert)(output + part.begin, part.end - part.begin);
  }
}

void ReadAllWriteOne(const FloorBuffers& buffers, FloorPart part) {
  const size_t num_bytes = part.end - part.begin;
  for (size_t i = 0; i + 1 < buffers.inputs.size(); ++i) {
    // Called through a pointer, so that no compiler removes it.
    HWY_DYNAMIC_DISPATCH(Read)(buffers.inputs[i] + part.begin, num_bytes);
  }
  Stream(buffers.outputs[0] + part.begin, buffers.inputs.back() + part.begin,
         num_bytes);
}

void CopyToAndFro(const FloorBuffers& buffers, FloorPart part) {
  const size_t half = (part.end - part.begin) / 2;
  for (uint8_t* output : buffers.outputs) {
    std::memcpy(output + part.begin, output + part.begin + half, half);
  }
  for (uint8_t* output : buffers.outputs) {
    std::memcpy(output + part.begin + half, output + part.begin, half);
  }
}

}  // namespace tutti
#endif  // HWY_ONCE
