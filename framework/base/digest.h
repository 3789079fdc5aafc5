#ifndef TUTTI_FRAMEWORK_BASE_DIGEST_H_
#define TUTTI_FRAMEWORK_BASE_DIGEST_H_

#include <cstdint>

#include "absl/types/span.h"

namespace tutti {

// Digests of number sequences: different sequences almost always get different
// digests. The same in all processes, unlike Abseil's hashes. Peers compare
// digests to find mistakes; a digest does not protect against an attacker.

// Adds one number to a digest: the mixing of splitmix64.
inline uint64_t AddToDigest(uint64_t digest, uint64_t value) {
  uint64_t z = digest + 0x9e3779b97f4a7c15 + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Digest of numbers in this order.
inline uint64_t DigestOf(absl::Span<const int64_t> numbers) {
  uint64_t digest = 0;
  for (const int64_t number : numbers) {
    digest = AddToDigest(digest, static_cast<uint64_t>(number));
  }
  return digest;
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_DIGEST_H_
