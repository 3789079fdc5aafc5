#ifndef TUTTI_FRAMEWORK_BASE_OLDEST_HALF_H_
#define TUTTI_FRAMEWORK_BASE_OLDEST_HALF_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti {

// Returns the keys of the less recently used half of `entries`, rounded up. An
// entry is the time of its last use, and its key.
template <typename Key>
std::vector<Key> OldestHalf(std::vector<std::pair<uint64_t, Key>> entries) {
  const size_t half = (entries.size() + 1) / 2;
  std::nth_element(
      entries.begin(), entries.begin() + static_cast<ptrdiff_t>(half),
      entries.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Key> oldest;
  oldest.reserve(half);
  for (size_t i = 0; i < half; ++i) oldest.push_back(entries[i].second);
  return oldest;
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_OLDEST_HALF_H_
