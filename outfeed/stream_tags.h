#ifndef TUTTI_OUTFEED_STREAM_TAGS_H_
#define TUTTI_OUTFEED_STREAM_TAGS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

// Kinds of transfers between the ends of an outfeed, for their tags. Each kind
// has separate numbers, which repeat after 2^28.
enum class StreamTag : uint8_t {
  // kCloseWord, from the receiving end to the sending end: stop sending.
  kClose,

  // Requested by both ends and never posted: its failure reports the link's
  // end.
  kWatch,

  // From the sending end to the receiving end, in order.
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
