#include "schedule/group_memory.h"

#include <algorithm>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tutti/collective.h"

namespace tutti {

absl::Status GroupMemory::CheckNumChunks() const {
  const auto wrong = [this](absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(type), " among ", num_ranks, " ranks in ", num_chunks,
                     " chunks; wants ", wanted));
  };
  if (num_chunks < 1) return wrong("at least one");
  if (num_chunks > kMaxChunks) {
    return wrong(absl::StrCat("at most ", kMaxChunks));
  }
  if (ExchangesBlocks(type) && num_chunks != num_ranks) {
    return wrong("one for each rank");
  }
  if (HasRankBlocks(type) && num_chunks % num_ranks != 0) {
    return wrong("a multiple of the number of ranks");
  }
  if (type == CollectiveType::kBarrier && num_chunks != 1) {
    return wrong("one, the token");
  }
  return absl::OkStatus();
}

bool GroupMemory::AreChunks(int chunk, int count) const {
  return chunk >= 0 && count > 0 && count <= num_chunks &&
         chunk <= num_chunks - count;
}

bool GroupMemory::AreOf(int rank, int chunk, int count) const {
  return chunk / pieces() == rank && (chunk + count - 1) / pieces() == rank;
}

bool GroupMemory::InputHas(int rank, int chunk, int count) const {
  if (!AreChunks(chunk, count)) return false;
  if (type == CollectiveType::kBarrier) return true;  // The token.
  if (!HasInput(type, rank, root)) return false;
  return !InputIsOwnBlock(type) || AreOf(rank, chunk, count);
}

bool GroupMemory::OutputHas(int rank, int chunk, int count) const {
  if (!AreChunks(chunk, count)) return false;
  if (!HasOutput(type, rank, root)) return false;
  return !OutputIsOwnBlock(type) || AreOf(rank, chunk, count);
}

bool GroupMemory::Has(int rank, const Slot& slot) const {
  switch (slot.space) {
    case Space::kInput:
      return slot.bank == 0 && InputHas(rank, slot.chunk, slot.num_chunks);
    case Space::kData:
      return slot.bank == 0 && OutputHas(rank, slot.chunk, slot.num_chunks);
    case Space::kScratch:
      return slot.bank >= 0 && (InputHas(rank, slot.chunk, slot.num_chunks) ||
                                OutputHas(rank, slot.chunk, slot.num_chunks));
  }
  return false;
}

Slot GroupMemory::Canonical(int rank, const Slot& slot) const {
  const bool is_input = slot.space == Space::kData && in_place[rank] &&
                        InputHas(rank, slot.chunk, slot.num_chunks);
  return is_input ? Input(slot.chunk, slot.num_chunks) : slot;
}

int64_t GroupMemory::SizeClass(int rank, const Slot& chunk) const {
  if (!HasRankBlocks(type)) return chunk.chunk;
  if (!uneven) return chunk.chunk % pieces();
  if (!ExchangesBlocks(type)) return chunk.chunk;
  // Each pair of sender and receiver is a class. A member that works in place
  // sends and receives equally much.
  int64_t from = rank;
  int64_t to = chunk.chunk;
  if (chunk.space == Space::kData) std::swap(from, to);
  if ((in_place[from] || in_place[to]) && from > to) std::swap(from, to);
  return from * num_ranks + to;
}

bool GroupMemory::HaveOneSize(int rank, const Slot& slot, int other_rank,
                              const Slot& other) const {
  if (slot.num_chunks != other.num_chunks) return false;
  // Else the classes of the first chunks determine those of all others.
  const bool is_by_pair = uneven && ExchangesBlocks(type);
  const int num_compared = is_by_pair ? slot.num_chunks : 1;
  for (int i = 0; i < num_compared; ++i) {
    if (SizeClass(rank, slot.At(i)) != SizeClass(other_rank, other.At(i))) {
      return false;
    }
  }
  return true;
}

bool GroupMemory::OverlapInPart(int rank, const Slot& slot,
                                const Slot& other) const {
  const Slot a = Canonical(rank, slot);
  const Slot b = Canonical(rank, other);
  return a.space == b.space && a.bank == b.bank && a.chunk != b.chunk &&
         std::abs(a.chunk - b.chunk) < slot.num_chunks;
}

}  // namespace tutti
