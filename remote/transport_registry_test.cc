#include "remote/transport_registry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace transport_registry_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TransportRegistry::Entry Named(const std::string& job) {
  return {[job](const NetworkSettings&) -> absl::StatusOr<TaskNetwork> {
    return TaskNetwork{.cluster = {.job = job}};
  }};
}

TEST(TransportRegistryTest, FindsTransportsByName) {
  TransportRegistry registry;
  EXPECT_THAT(registry.Register("pigeon", Named("p")), IsOk());
  EXPECT_THAT(registry.Register("drum", Named("d")), IsOk());
  EXPECT_THAT(registry.names(), ElementsAre("drum", "pigeon"));
  EXPECT_EQ(registry.Find("drum")->connect({})->cluster.job, "d");
  EXPECT_THAT(registry.status(), IsOk());
}

TEST(TransportRegistryTest, AnUnknownNameIsAnErrorThatListsTheOthers) {
  TransportRegistry registry;
  EXPECT_THAT(registry.Register("pigeon", Named("p")), IsOk());
  EXPECT_THAT(registry.Find("raven"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("\"raven\" is linked; there are: pigeon")));
}

TEST(TransportRegistryTest, ANameThatIsTakenIsAnErrorAndTheFirstStays) {
  TransportRegistry registry;
  EXPECT_THAT(registry.Register("pigeon", Named("first")), IsOk());
  EXPECT_THAT(registry.Register("pigeon", Named("second")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("pigeon")));
  EXPECT_EQ(registry.Find("pigeon")->connect({})->cluster.job, "first");
  EXPECT_THAT(registry.status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("pigeon")));
}

}  // namespace transport_registry_test
}  // namespace tutti
