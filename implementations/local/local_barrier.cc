#include <utility>
#include <vector>

#include "implementations/local/local_pass.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Does nothing: all members have met.
class Barrier : public LocalPass {
 public:
  using LocalPass::LocalPass;

 private:
  int64_t num_bytes() const override { return 0; }
  absl::Status Run(ByteRange) const override { return absl::OkStatus(); }
};

REGISTER_COLLECTIVE(LocalBarrier,
                    Implemented<LocalImplementation<Barrier>>(LocalTraits(
                        "the members meet", {CollectiveType::kBarrier})));

}  // namespace
}  // namespace tutti
