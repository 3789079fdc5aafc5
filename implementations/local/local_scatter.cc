#include <utility>
#include <vector>

#include "implementations/local/local_exchange.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Copies every block of the root's input straight to its output.
class Scatter : public LocalExchange {
 public:
  explicit Scatter(absl::Span<const Attendee> members)
      : LocalExchange(members) {
    const int64_t row_bytes = RowElements(instance().shape) * element_bytes();
    const uint8_t* from = input(instance().root);
    for (int rank = 0; rank < group_size(); ++rank) {
      const int64_t block =
          BlockRows(instance(), group_size(), rank, rank) * row_bytes;
      Append({from, output(rank)}, block);
      from += block;
    }
  }
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      LocalTraits("copies the root's blocks straight to the outputs",
                  {CollectiveType::kScatter});
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalScatter,
                    Implemented<LocalImplementation<Scatter>>(Traits()));

}  // namespace
}  // namespace tutti
