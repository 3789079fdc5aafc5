#include "tests/conformance/member_buffers.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tutti::conformance {
namespace {

constexpr std::byte kUnwritten{0xCD};
constexpr std::byte kTakenBack{0xEE};

std::string Hex(absl::Span<const std::byte> bytes) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string Difference(absl::Span<const std::byte> found,
                       absl::Span<const std::byte> wanted, size_t offset) {
  if (std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) {
    return "";
  }
  constexpr size_t kShown = 16;
  const auto differing =
      std::mismatch(found.begin(), found.end(), wanted.begin());
  const size_t at = static_cast<size_t>(differing.first - found.begin());
  return absl::StrCat("byte ", offset + at, " and on: found ",
                      Hex(found.subspan(at, kShown)), ", wanted ",
                      Hex(wanted.subspan(at, kShown)));
}

}  // namespace

MemberBuffers::MemberBuffers(const Case& c, int rank, const Bytes& input)
    // Another address for each rank, where the case is about odd ones.
    : misalignment_(c.in_place == InPlace::kAlternating
                        ? 1 + rank % (GuardedMemory::kAlignment - 1)
                        : 0),
      allocates_output_(c.allocates_output) {
  const size_t element = SizeOf(c.dtype);
  const bool has_input = HasInput(c.type, rank, c.root);
  const bool has_output = HasOutput(c.type, rank, c.root);
  const size_t input_bytes = has_input ? input.size() : 0;
  const size_t output_bytes = has_output ? OutputElements(c, rank) * element : 0;
  if (IsInPlace(c, rank)) {
    const bool same_size = input_bytes == output_bytes;
    PlaceInPlace(input_bytes, output_bytes,
                 same_size ? 0 : OwnBlockBegin(c, rank) * element);
  } else {
    PlaceApart(input_bytes, output_bytes);
  }
  if (!input_bytes_.empty()) {
    std::memcpy(input_bytes_.data(), input.data(), input.size());
  }
  if (has_input) input_ = WrapMemory(c, input_bytes_);
  if (has_output && !allocates_output_) output_ = WrapMemory(c, output_bytes_);
}

}  // namespace tutti::conformance
