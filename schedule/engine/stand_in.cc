#include "schedule/engine/stand_in.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/schedule.h"

namespace tutti {

absl::StatusOr<StandIn> StandInOf(const CollectiveFactory& factory) {
  const Algorithm* const algorithm = AlgorithmOf(factory);
  if (algorithm != nullptr) {
    RETURN_IF_ERROR(CheckParts(algorithm->traits));
    return StandIn{.algorithm = *algorithm};
  }
  const auto* const code = dynamic_cast<const HasStandIn*>(&factory);
  if (code != nullptr) return code->MakeStandIn();
  const std::string& delegate = factory.traits().delegate;
  return absl::UnimplementedError(
      delegate.empty() ? "it is code, not a schedule"
                       : absl::StrCat("its messages are those of ", delegate,
                                      ", which are not known here"));
}

}  // namespace tutti
