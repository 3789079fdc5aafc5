#include <cstddef>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/names.h"
#include "tutti/collective.h"

namespace tutti {
namespace {

// Buffer of each member. Blocks: one for each rank. Own: the block of this
// rank.
enum class Side { kNone, kWhole, kWholeOfRoot, kBlocks, kBlocksOfRoot, kOwn };

// Inputs whose reduction a rank gets.
enum class Reduced { kNone, kAll, kUpToOwn, kBeforeOwn };

// Row of the table of collectives.
struct Row {
  absl::string_view name;
  Side input;
  Side output;
  Reduced reduced = Reduced::kNone;
};

// In the order of CollectiveType.
constexpr Row kRows[] = {
    {"all_reduce", Side::kWhole, Side::kWhole, Reduced::kAll},
    {"all_gather", Side::kOwn, Side::kBlocks},
    {"reduce_scatter", Side::kBlocks, Side::kOwn, Reduced::kAll},
    {"broadcast", Side::kWholeOfRoot, Side::kWhole},
    {"all_to_all", Side::kBlocks, Side::kBlocks},
    {"permute", Side::kWhole, Side::kWhole},
    {"barrier", Side::kNone, Side::kNone},
    {"reduce", Side::kWhole, Side::kWholeOfRoot, Reduced::kAll},
    {"gather", Side::kOwn, Side::kBlocksOfRoot},
    {"scatter", Side::kBlocksOfRoot, Side::kOwn},
    {"scan", Side::kWhole, Side::kWhole, Reduced::kUpToOwn},
    {"exscan", Side::kWhole, Side::kWhole, Reduced::kBeforeOwn},
};
static_assert(std::size(kRows) == kAllCollectiveTypes.size());

// Row of any number: types of messages of other tasks are named before they are
// refused.
const Row& RowOf(CollectiveType type) {
  static constexpr Row kUnknown = {"unknown", Side::kNone, Side::kNone};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kRows) ? kRows[index] : kUnknown;
}

bool IsOfRoot(Side side) {
  return side == Side::kWholeOfRoot || side == Side::kBlocksOfRoot;
}

bool Has(Side side, int rank, int root) {
  return IsOfRoot(side) ? rank == root : side != Side::kNone;
}

}  // namespace

absl::string_view Name(CollectiveType type) { return RowOf(type).name; }

absl::StatusOr<CollectiveType> ParseCollectiveType(absl::string_view name) {
  return ParseName("collective", name, kAllCollectiveTypes);
}

bool Reduces(CollectiveType type) {
  return RowOf(type).reduced != Reduced::kNone;
}

bool IsScan(CollectiveType type) { return RowOf(type).reduced > Reduced::kAll; }

int NumReduced(CollectiveType type, int rank, int group_size) {
  if (!IsScan(type)) return group_size;
  return RowOf(type).reduced == Reduced::kUpToOwn ? rank + 1 : rank;
}

bool HasRoot(CollectiveType type) {
  return IsOfRoot(RowOf(type).input) || IsOfRoot(RowOf(type).output);
}

bool HasRankBlocks(CollectiveType type) {
  return RowOf(type).input >= Side::kBlocks;
}

bool InputIsOwnBlock(CollectiveType type) {
  return RowOf(type).input == Side::kOwn;
}

bool OutputIsOwnBlock(CollectiveType type) {
  return RowOf(type).output == Side::kOwn;
}

bool ExchangesBlocks(CollectiveType type) {
  return RowOf(type).input == Side::kBlocks &&
         RowOf(type).output == Side::kBlocks;
}

bool HasInput(CollectiveType type, int rank, int root) {
  return Has(RowOf(type).input, rank, root);
}

bool HasOutput(CollectiveType type, int rank, int root) {
  const Row& row = RowOf(type);
  if (row.reduced == Reduced::kBeforeOwn && rank == 0) return false;
  return Has(row.output, rank, root);
}

absl::string_view Name(Determinism determinism) {
  switch (determinism) {
    case Determinism::kByRankOrder:
      return "by rank order";
    case Determinism::kFixedLayout:
      return "fixed layout";
    case Determinism::kNotGuaranteed:
      return "not guaranteed";
  }
  return "unknown";
}

absl::StatusOr<Determinism> ParseDeterminism(absl::string_view text) {
  const std::string spaced = absl::StrReplaceAll(text, {{"_", " "}});
  for (const Determinism determinism :
       {Determinism::kByRankOrder, Determinism::kFixedLayout,
        Determinism::kNotGuaranteed}) {
    if (spaced == Name(determinism)) return determinism;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown class of determinism \"", text,
                   "\"; known: by_rank_order, fixed_layout, not_guaranteed"));
}

}  // namespace tutti
