#ifndef TUTTI_TOOLS_BASE_NAMED_ONLY_TESTING_H_
#define TUTTI_TOOLS_BASE_NAMED_ONLY_TESTING_H_

#include <memory>

#include "tutti/implementation.h"

namespace tutti {

// For tests: an implementation that can be registered and listed, but not run.
class NamedOnly : public CollectiveFactory {
 public:
  using CollectiveFactory::CollectiveFactory;
  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return nullptr;
  }
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_NAMED_ONLY_TESTING_H_
