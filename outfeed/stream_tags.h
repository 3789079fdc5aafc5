#ifndef TUTTI_OUTFEED_STREAM_TAGS_H_
#define TUTTI_OUTFEED_STREAM_TAGS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

// Under which tags the ends of an outfeed lend and ask. Each kind counts on its
// own; numbers come again after 2^28 of them.
enum class StreamTag : uint8_t {
  // From the receiving end to the sending one, kCloseWord: stop sending.
  kClose,

  // Asked for by both and never lent: how an end hears that the link ended.
  kWatch,

  // From the sending end to the receiving one, in order.
  kParcel,
  kLargeArray,
};

constexpr int32_t TagOf(StreamTag kind, uint64_t number) {
  constexpr uint64_t kNumbers = uint64_t{1} << 28;
  return static_cast<int32_t>((number % kNumbers) * 4 +
                              static_cast<uint64_t>(kind));
}

inline constexpr std::array<std::byte, 4> kCloseWord = {
    std::byte{'s'}, std::byte{'t'}, std::byte{'o'}, std::byte{'p'}};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_STREAM_TAGS_H_
