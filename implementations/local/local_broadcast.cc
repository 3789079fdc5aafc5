#include <utility>
#include <vector>

#include "implementations/local/local_fan_out.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Reads the source's input once and writes it to all outputs.
class Broadcast : public LocalFanOut {
 public:
  explicit Broadcast(absl::Span<const Attendee> members)
      : LocalFanOut(members) {
    Append(instance().root, instance().shape.num_elements() * element_bytes());
  }
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      LocalTraits("copies the source's input straight to all outputs",
                  {CollectiveType::kBroadcast});
  traits.shares_output = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalBroadcast,
                    Implemented<LocalImplementation<Broadcast>>(Traits()));

}  // namespace
}  // namespace tutti
