// Program in which two libraries register one name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace {

class Nothing : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

namespace one_library {
REGISTER_COLLECTIVE(TwiceRegistered,
                    Implemented<Nothing>({.collectives = {
                                              CollectiveType::kAllReduce}}));
}  // namespace one_library
namespace another_library {
REGISTER_COLLECTIVE(TwiceRegistered,
                    Implemented<Nothing>({.collectives = {
                                              CollectiveType::kAllReduce}}));
}  // namespace another_library

TEST(RegistryDuplicateTest, ARuntimeRefusesToStartAndNamesTheDuplicate) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices =
      DeviceManager::CreateCpu(1, 2, environment.get().random).value();
  EXPECT_THAT(CreateLocalExecutorMgr(environment.get(), devices.get()),
              IsAlreadyExists("TwiceRegistered"));
}

}  // namespace
}  // namespace tutti
