#include "schedule/algorithm.h"

#include <memory>
#include <utility>

#include "framework/collective_implementation.h"

namespace tutti {
namespace {

class ScheduledFactory : public CollectiveFactory {
 public:
  explicit ScheduledFactory(Algorithm algorithm)
      : CollectiveFactory(algorithm.traits), algorithm_(std::move(algorithm)) {}

  const Algorithm& algorithm() const { return algorithm_; }

  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return nullptr;
  }

 private:
  const Algorithm algorithm_;
};

}  // namespace

std::shared_ptr<const CollectiveFactory> Scheduled(Algorithm algorithm) {
  return std::make_shared<ScheduledFactory>(std::move(algorithm));
}

const Algorithm* AlgorithmOf(const CollectiveFactory& factory) {
  const auto* scheduled = dynamic_cast<const ScheduledFactory*>(&factory);
  return scheduled == nullptr ? nullptr : &scheduled->algorithm();
}

}  // namespace tutti
