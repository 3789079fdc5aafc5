#ifndef TUTTI_TESTS_CONFORMANCE_DISGUISE_H_
#define TUTTI_TESTS_CONFORMANCE_DISGUISE_H_

#include <memory>
#include <utility>

#include "tutti/implementation.h"

namespace tutti::conformance {

// RingReduce in the disguise of an implementation that is not a schedule, which
// has no specified order of summation. Registered as "Disguise".
class Disguise : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveParams(
      const CollGroupParams& group, CollInstanceParams* instance) override {
    return ring_reduce_->InitializeCollectiveParams(group, instance);
  }
  absl::Status InitializeCollectiveContext(
      CollectiveContext* context) override {
    return ring_reduce_->InitializeCollectiveContext(context);
  }
  void Run(const CollectiveContext& context, StatusCallback done) override {
    ring_reduce_->Run(context, [this, &context, done = std::move(done)](
                                   absl::Status status) mutable {
      End(context, std::move(status), std::move(done));
    });
  }

 protected:
  virtual void End(const CollectiveContext& /*context*/, absl::Status status,
                   StatusCallback done) {
    std::move(done)(std::move(status));
  }

 private:
  const std::unique_ptr<CollectiveImplementationInterface> ring_reduce_ =
      (*CollectiveRegistry::Global().Find("RingReduce"))->Create();
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_DISGUISE_H_
