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
    const int64_t block =
        instance().shape.num_elements() * element_bytes() / group_size();
    for (int rank = 0; rank < group_size(); ++rank) {
      Append({input(instance().root) + rank * block, output(rank)}, block);
    }
  }
};

REGISTER_COLLECTIVE(LocalScatter,
                    Implemented<LocalImplementation<Scatter>>(LocalTraits(
                        "copies the root's blocks straight to the outputs",
                        {CollectiveType::kScatter})));

}  // namespace
}  // namespace tutti
