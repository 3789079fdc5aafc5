#include "framework/implementation_traits.h"

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

}  // namespace tutti
