#include "tools/measure/stream_copy.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace tutti {
namespace stream_copy_test {

// Covers every alignment of both sides, and every length around vectors and
// lines.
TEST(StreamCopyTest, CopiesExactlyTheBytesAskedFor) {
  constexpr size_t kMaxBytes = 300;
  std::vector<uint8_t> from(kMaxBytes + 64);
  std::iota(from.begin(), from.end(), uint8_t{1});
  for (size_t skip = 0; skip < 64; skip += 3) {
    for (size_t num_bytes = 0; num_bytes <= kMaxBytes; ++num_bytes) {
      std::vector<uint8_t> into(kMaxBytes + 128, 0);
      std::vector<uint8_t> wanted = into;
      std::copy_n(&from[skip / 2], num_bytes, &wanted[skip]);
      StreamCopy(reinterpret_cast<std::byte*>(&into[skip]),
                 reinterpret_cast<const std::byte*>(&from[skip / 2]),
                 num_bytes);
      ASSERT_EQ(into, wanted) << "skip " << skip << ", bytes " << num_bytes;
    }
  }
}

}  // namespace stream_copy_test
}  // namespace tutti
