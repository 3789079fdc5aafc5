#include "tests/conformance/member_buffers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tutti::conformance {
namespace {

constexpr size_t kGuardBytes = 64;  // At least, on each side.
constexpr std::byte kGuard{0xA5};

}  // namespace

GuardedMemory::GuardedMemory(size_t num_bytes, size_t misalignment,
                             std::byte fill)
    : memory_(num_bytes + 2 * kGuardBytes + 2 * kAlignment, kGuard),
      begin_(kGuardBytes),
      size_(num_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data() + begin_);
  begin_ += (kAlignment - address % kAlignment) % kAlignment + misalignment;
  std::fill_n(memory_.begin() + static_cast<ptrdiff_t>(begin_), size_, fill);
}

bool GuardedMemory::GuardsAreIntact() const {
  const auto all = absl::MakeConstSpan(memory_);
  return AllAre(all.subspan(0, begin_), kGuard) &&
         AllAre(all.subspan(begin_ + size_), kGuard);
}

bool AllAre(absl::Span<const std::byte> bytes, std::byte value) {
  return bytes.empty() ||
         (bytes[0] == value &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

namespace {

constexpr std::byte kUnwritten{0xCD};
constexpr std::byte kTakenBack{0xEE};

std::string Hex(absl::Span<const std::byte> bytes) {
  constexpr size_t kShown = 16;
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()),
                        std::min(bytes.size(), kShown)));
}

// REQUIRES: the sizes are the same.
std::string Difference(absl::string_view what, size_t begin,
                       absl::Span<const std::byte> found,
                       absl::Span<const std::byte> wanted) {
  if (found.empty() ||
      std::memcmp(found.data(), wanted.data(), found.size()) == 0) {
    return "";
  }
  const auto first =
      std::mismatch(found.begin(), found.end(), wanted.begin()).first;
  const auto at = static_cast<size_t>(first - found.begin());
  return absl::StrCat(what, ", byte ", begin + at, " and on: found ",
                      Hex(found.subspan(at)), ", wanted ",
                      Hex(wanted.subspan(at)));
}

size_t BytesOf(const Case& c, int64_t num_elements) {
  return static_cast<size_t>(num_elements) * SizeOf(c.dtype);
}

}  // namespace

MemberBuffers::MemberBuffers(const Case& c, int rank, const Bytes& input)
    : original_input_(input),
      // An odd address for each rank, in the cases that are about such.
      misalignment_(c.in_place == InPlace::kEvenRanks ? 1 + rank % 32 : 0) {
  const bool has_input = HasInput(c.type, rank, c.root);
  const bool has_output = HasOutput(c.type, rank, c.root);
  const bool gives_output = has_output && !c.allocates_output;
  const size_t output_bytes = BytesOf(c, OutputElements(c, rank));
  if (IsInPlace(c, rank)) {
    const bool is_block =
        HasBlocks(c.type) && c.type != CollectiveType::kAllToAll;
    PlaceInPlace(input.size(), output_bytes,
                 is_block ? BytesOf(c, OwnBlockBegin(c, rank)) : 0);
  } else {
    if (has_input) input_bytes_ = AddMemory(input.size());
    if (gives_output) output_bytes_ = AddMemory(output_bytes);
  }
  std::copy_n(input.begin(), input_bytes_.size(), input_bytes_.begin());
  if (has_input) input_ = Wrap(c, input_bytes_);
  if (gives_output) output_ = Wrap(c, output_bytes_);
}

void MemberBuffers::PlaceInPlace(size_t input_bytes, size_t output_bytes,
                                 size_t block_begin) {
  is_in_place_ = true;
  const auto all = AddMemory(std::max(input_bytes, output_bytes));
  const bool input_is_all = input_bytes == all.size();
  const bool output_is_all = output_bytes == all.size();
  input_bytes_ = all.subspan(input_is_all ? 0 : block_begin, input_bytes);
  output_bytes_ = all.subspan(output_is_all ? 0 : block_begin, output_bytes);
}

absl::Span<std::byte> MemberBuffers::AddMemory(size_t num_bytes) {
  return memories_.emplace_back(num_bytes, misalignment_, kUnwritten).bytes();
}

Tensor MemberBuffers::Wrap(const Case& c, absl::Span<std::byte> bytes) {
  const auto num_elements =
      static_cast<int64_t>(bytes.size() / SizeOf(c.dtype));
  ++*num_held_;
  return *Tensor::Wrap(c.dtype, ShapeOf(c, num_elements), bytes.data(),
                       [held = num_held_] { --*held; });
}

std::string MemberBuffers::CheckOutput(
    absl::Span<const absl::Span<const std::byte>> wanted) const {
  const absl::Span<const std::byte> found(output_.data(), output_.size_bytes());
  size_t begin = 0;
  for (const auto& piece : wanted) {
    std::string difference =
        Difference("output", begin, found.subspan(begin, piece.size()), piece);
    if (!difference.empty()) return difference;
    begin += piece.size();
  }
  if (!is_in_place_ || input_bytes_.size() <= output_bytes_.size()) return "";
  // The output is a block of the input.
  const auto input = absl::MakeConstSpan(original_input_);
  const auto before =
      static_cast<size_t>(output_bytes_.data() - input_bytes_.data());
  const size_t after = before + output_bytes_.size();
  std::string changed =
      Difference("input before the output", 0, input_bytes_.subspan(0, before),
                 input.subspan(0, before));
  if (!changed.empty()) return changed;
  return Difference("input after the output", after,
                    input_bytes_.subspan(after), input.subspan(after));
}

std::string MemberBuffers::CheckUntouched() const {
  for (const GuardedMemory& memory : memories_) {
    if (!memory.GuardsAreIntact()) return "bytes beside a buffer were written";
  }
  if (is_in_place_) return "";
  return Difference("input", 0, input_bytes_, original_input_);
}

void MemberBuffers::TakeBack() {
  for (GuardedMemory& memory : memories_) {
    std::fill(memory.bytes().begin(), memory.bytes().end(), kTakenBack);
  }
  input_ = Tensor();
  output_ = Tensor();
}

std::string MemberBuffers::CheckTakenBack() const {
  if (*num_held_ != 0) {
    return absl::StrCat("the deleters of ", num_held_->load(),
                        " wrapped tensors did not run");
  }
  for (const GuardedMemory& memory : memories_) {
    if (!memory.GuardsAreIntact() || !AllAre(memory.bytes(), kTakenBack)) {
      return "a buffer was written after `done`";
    }
  }
  return "";
}

}  // namespace tutti::conformance
