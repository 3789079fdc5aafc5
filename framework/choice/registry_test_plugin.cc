// Implementation that a program gets by linking it.

#include <utility>

#include "tutti/implementation.h"

namespace tutti {
namespace {

class LinkedPluginImplementation : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

REGISTER_COLLECTIVE(LinkedPlugin,
                    Implemented<LinkedPluginImplementation>(
                        {.summary = "registered by linking alone",
                         .collectives = {CollectiveType::kAllReduce}}));

}  // namespace
}  // namespace tutti
