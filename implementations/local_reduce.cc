#include <cstdint>
#include <utility>
#include <vector>

#include "framework/registry.h"
#include "implementations/local_buffers.h"
#include "implementations/local_fold.h"
#include "implementations/local_pass.h"

namespace tutti {
namespace {

// All members are in this process, so the last one to arrive has all inputs,
// and the whole reduction is one pass over memory, line by line:
//
//   inputs    a  b  c  d       each is read once
//              | |  | |        in rank order
//            registers         (((a + b) + c) + d), final op
//              | |  | |        to all
//   outputs   w  x  y  z       each is written once
//
// For n members of S bytes that is 2 n S bytes in all, the least there is.
class Reduction : public LocalPass {
 public:
  explicit Reduction(absl::Span<const Attendee> members) : LocalPass(members) {
    for (int rank = 0; rank < group_size(); ++rank) {
      inputs_.push_back(input(rank));
      if (output(rank) == nullptr) continue;
      // In place, the line has just been read and is in the caches.
      const bool is_near = !streams() || in_place(rank);
      (is_near ? outputs_ : streamed_).push_back(output(rank));
    }
  }

 private:
  int64_t num_bytes() const override {
    return instance().shape.num_elements() * element_bytes();
  }

  absl::Status Run(ByteRange slice) const override {
    return Fold(instance(), {.inputs = At<const uint8_t>(inputs_, slice.begin),
                             .outputs = At<uint8_t>(outputs_, slice.begin),
                             .streamed = At<uint8_t>(streamed_, slice.begin),
                             .num_bytes = slice.end - slice.begin});
  }

  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
  Pointers<uint8_t> streamed_;
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      LocalTraits("one pass over memory, in rank order",
                  {CollectiveType::kAllReduce, CollectiveType::kReduce});
  traits.shares_output = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalReduce,
                    Implemented<LocalImplementation<Reduction>>(Traits()));

}  // namespace
}  // namespace tutti
