#include "schedule/group_memory.h"

#include <algorithm>

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

bool GroupMemory::InputHas(int rank, int chunk) const {
  if (chunk < 0 || chunk >= num_chunks) return false;
  if (type == CollectiveType::kBarrier) return true;  // The token.
  if (!HasInput(type, rank, root)) return false;
  return !InputIsOwnBlock(type) || chunk / pieces() == rank;
}

bool GroupMemory::OutputHas(int rank, int chunk) const {
  if (chunk < 0 || chunk >= num_chunks) return false;
  if (!HasOutput(type, rank, root)) return false;
  return !OutputIsOwnBlock(type) || chunk / pieces() == rank;
}

bool GroupMemory::Has(int rank, const Slot& slot) const {
  switch (slot.space) {
    case Space::kInput:
      return slot.bank == 0 && InputHas(rank, slot.chunk);
    case Space::kData:
      return slot.bank == 0 && OutputHas(rank, slot.chunk);
    case Space::kScratch:
      return slot.bank >= 0 &&
             (InputHas(rank, slot.chunk) || OutputHas(rank, slot.chunk));
  }
  return false;
}

Slot GroupMemory::Canonical(int rank, const Slot& slot) const {
  const bool is_input = slot.space == Space::kData && in_place[rank] &&
                        InputHas(rank, slot.chunk);
  return is_input ? Input(slot.chunk) : slot;
}

int64_t GroupMemory::SizeClass(int rank, const Slot& slot) const {
  if (!HasRankBlocks(type)) return slot.chunk;
  if (!uneven) return slot.chunk % pieces();
  if (!ExchangesBlocks(type)) return slot.chunk;
  // Each pair of sender and receiver is a class. A member that works in place
  // sends and receives equally much.
  int64_t from = rank;
  int64_t to = slot.chunk;
  if (slot.space == Space::kData) std::swap(from, to);
  if ((in_place[from] || in_place[to]) && from > to) std::swap(from, to);
  return from * num_ranks + to;
}

}  // namespace tutti
