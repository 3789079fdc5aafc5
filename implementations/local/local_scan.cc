#include <cstdint>
#include <utility>
#include <vector>

#include "framework/reduce/fold_prefixes.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Makes one pass over memory, as LocalReduce, but each sum on the way is an
// output:
//
//   inputs         a    b      c            each is read once, in rank order
//   scan           a    a + b  (a + b) + c  each is written once
//   exscan              a      a + b
//
// n members of S bytes touch 2 n S bytes in total, the least possible. Each
// output has the bits of a LocalReduce of its inputs.
class Prefixes : public LocalPass {
 public:
  explicit Prefixes(absl::Span<const Attendee> members) : LocalPass(members) {
    for (int rank = 0; rank < group_size(); ++rank) {
      inputs_.push_back(input(rank));
      outputs_.push_back(output(rank));
    }
  }

 private:
  int64_t num_bytes() const override {
    return instance().shape.num_elements() * element_bytes();
  }

  absl::Status Run(ByteRange slice) const override {
    return FoldPrefixes(
        instance().dtype, instance().merge_op,
        {.inputs = inputs_,
         .outputs = outputs_,
         .is_exclusive = instance().type == CollectiveType::kExscan,
         .past_caches = streams(),
         .begin = slice.begin,
         .num_bytes = slice.size()});
  }

  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
};

REGISTER_COLLECTIVE(LocalScan,
                    Implemented<LocalImplementation<Prefixes>>(LocalTraits(
                        "one pass over memory, in rank order",
                        {CollectiveType::kScan, CollectiveType::kExscan})));

}  // namespace
}  // namespace tutti
