#include "tools/measure/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

// Highway compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/measure/stream_copy.cc"
#include "hwy/foreach_target.h"
// Included after foreach_target.h, as Highway requires.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Copies whole, aligned vectors. Returns the number of bytes copied.
size_t StreamVectors(uint8_t* into, const uint8_t* from, size_t num_bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t vector_bytes = hn::Lanes(d);
  size_t done = 0;
  for (; done + vector_bytes <= num_bytes; done += vector_bytes) {
    hn::Stream(hn::LoadU(d, from + done), d, into + done);
  }
  hwy::FlushStream();
  return done;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
namespace {

HWY_EXPORT(StreamVectors);

constexpr size_t kLineBytes = 64;  // At least the widest vector.

// Copies less than a line and flushes it from the caches.
void CopyAndFlush(std::byte* into, const std::byte* from, size_t num_bytes) {
  if (num_bytes == 0) return;
  std::memcpy(into, from, num_bytes);
  hwy::FlushCacheline(into);
  hwy::FlushCacheline(into + num_bytes - 1);
}

}  // namespace

void StreamCopy(std::byte* into, const std::byte* from, size_t num_bytes) {
  const size_t past_line = reinterpret_cast<uintptr_t>(into) % kLineBytes;
  const size_t head =
      std::min((kLineBytes - past_line) % kLineBytes, num_bytes);
  CopyAndFlush(into, from, head);
  const size_t body = HWY_DYNAMIC_DISPATCH(StreamVectors)(
      reinterpret_cast<uint8_t*>(into + head),
      reinterpret_cast<const uint8_t*>(from + head), num_bytes - head);
  CopyAndFlush(into + head + body, from + head + body, num_bytes - head - body);
}

}  // namespace tutti
#endif  // HWY_ONCE
