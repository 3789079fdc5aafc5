#ifndef TUTTI_FRAMEWORK_EXECUTOR_PREMULTIPLICATION_H_
#define TUTTI_FRAMEWORK_EXECUTOR_PREMULTIPLICATION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "framework/executor/settled_facts.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// Product of a member's input and its CollectiveArgs::input_factor, computed
// before each run into the memory that the implementation reads. No
// implementation knows of it. Immutable.
class Premultiplication {
 public:
  // Puts the place of the products into `context`, whose buffers are prepared,
  // as its input or its segments: the output where it has the input's shape,
  // else memory of the device. Errors: INVALID_ARGUMENT for a collective that
  // does not reduce, for integers and bool; UNIMPLEMENTED for a device without
  // host memory; the errors of Device::Allocate().
  static absl::StatusOr<std::unique_ptr<const Premultiplication>> Create(
      double factor, const SettledFacts& settled, CollectiveContext* context);

  // Computes the products. `context` is the one given to Create(). If its
  // segments are packed, call this after they have been copied.
  void Run(CollectiveContext& context) const;

  // Arguments of the caller; without an input where there are segments.
  double factor() const { return factor_; }
  const Tensor& input() const { return input_; }
  const std::shared_ptr<const SegmentList>& segments() const {
    return segments_;
  }

 private:
  Premultiplication(double factor, const CollectiveContext& context);

  const double factor_;
  const Tensor input_;
  const std::shared_ptr<const SegmentList> segments_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_PREMULTIPLICATION_H_
