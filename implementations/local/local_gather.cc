#include <utility>
#include <vector>

#include "implementations/local/local_fan_out.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace {

// Reads every input once and writes it to its place in all outputs, or in the
// root's.
//
//   inputs    a   b   c
//   outputs   a b c   a b c   a b c
class Gather : public LocalFanOut {
 public:
  explicit Gather(absl::Span<const Attendee> members) : LocalFanOut(members) {
    const int64_t row_bytes = RowElements(instance().shape) * element_bytes();
    for (int rank = 0; rank < group_size(); ++rank) {
      Append(rank, BlockRows(instance(), group_size(), rank, rank) * row_bytes);
    }
  }
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      LocalTraits("copies every input straight to all outputs",
                  {CollectiveType::kAllGather, CollectiveType::kGather});
  traits.supports_uneven = true;
  traits.shares_output = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalGather,
                    Implemented<LocalImplementation<Gather>>(Traits()));

}  // namespace
}  // namespace tutti
