#ifndef TUTTI_OUTFEED_OUTFEED_REGISTRY_H_
#define TUTTI_OUTFEED_OUTFEED_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/dtype.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"

namespace tutti {

// What one array of an item is.
struct ArraySpec {
  DType dtype = DType::kFloat32;
  TensorShape shape;

  std::string ToString() const;  // "float32[2,3]"

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

// What the items with one consumer id are.
struct OutfeedConsumer {
  uint32_t id = 0;
  std::vector<ArraySpec> arrays;
  int64_t payload_bytes = 0;  // Of all arrays.
  Tensor header;              // Of every item.
};

// OK if `array` is as `consumer.arrays[index]` says. Errors: INVALID_ARGUMENT
// with what was wanted and found. REQUIRES: such an index.
absl::Status CheckArray(const OutfeedConsumer& consumer, size_t index,
                        const Tensor& array);

// The consumers of one receiver. What an id stands for never changes, and no id
// is forgotten. Thread-safe.
class OutfeedRegistry {
 public:
  OutfeedRegistry();
  ~OutfeedRegistry();
  OutfeedRegistry(const OutfeedRegistry&) = delete;
  OutfeedRegistry& operator=(const OutfeedRegistry&) = delete;

  // The same again is fine. Errors: INVALID_ARGUMENT for the reserved id, for
  // other arrays than before, and for more bytes than one transfer may have.
  absl::Status Register(uint32_t consumer_id, std::vector<ArraySpec> arrays);

  // Lives as long as this. Errors: NOT_FOUND if nobody registered the id.
  absl::StatusOr<const OutfeedConsumer*> Find(uint32_t consumer_id) const;

 private:
  class Consumers;

  const std::unique_ptr<Consumers> consumers_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_REGISTRY_H_
