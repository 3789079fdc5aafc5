#include <utility>
#include <vector>

#include "framework/registry.h"
#include "implementations/local_fan_out.h"

namespace tutti {
namespace {

// The source's input, read once, to all outputs.
class Broadcast : public LocalFanOut {
 public:
  explicit Broadcast(std::vector<Attendee> members)
      : LocalFanOut(std::move(members)) {
    Append(instance().root, instance().shape.num_elements() * element_bytes());
  }
};

REGISTER_COLLECTIVE(LocalBroadcast,
                    Implemented<LocalImplementation<Broadcast>>(LocalTraits(
                        "copies the source's input straight to all outputs",
                        {CollectiveType::kBroadcast})));

}  // namespace
}  // namespace tutti
