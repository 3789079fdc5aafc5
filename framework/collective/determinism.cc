#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tutti/collective.h"

namespace tutti {

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
