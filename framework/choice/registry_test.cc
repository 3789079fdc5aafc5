#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"

namespace tutti {
namespace registry_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Nothing : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

std::shared_ptr<const CollectiveFactory> Factory(std::string summary = "") {
  return Implemented<Nothing>({.summary = std::move(summary),
                               .collectives = {CollectiveType::kAllReduce}});
}

TEST(RegistryTest, ADuplicateNameIsAlreadyExistsAndNamed) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory("first")), IsOk());
  EXPECT_THAT(registry.Register("Ring", Factory("second")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Ring")));
}

TEST(RegistryTest, TheFirstOfADuplicateNameStays) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory("first")), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory("second")), Not(IsOk()));
  const auto found = registry.Find("Ring");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->traits().summary, "first");
}

TEST(RegistryTest, StatusKeepsTheFirstErrorOfAnyRegistration) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.status(), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  EXPECT_THAT(registry.status(), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), Not(IsOk()));
  ASSERT_THAT(registry.Register("", Factory()), Not(IsOk()));
  ASSERT_THAT(registry.Register("Tree", Factory()), IsOk());
  EXPECT_THAT(registry.status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Ring")));
}

TEST(RegistryTest, AnEmptyNameIsInvalid) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("", Factory()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
}

TEST(RegistryTest, NoFactoryIsInvalidAndNamed) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("Ring", nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Ring")));
  EXPECT_THAT(registry.Find("Ring"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Ring")));
}

TEST(RegistryTest, AFactoryOfNoCollectivesIsInvalidAndNamed) {
  CollectiveRegistry registry;
  EXPECT_THAT(
      registry.Register("Ring", Implemented<Nothing>({})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Ring"), HasSubstr("without collectives"))));
}

TEST(RegistryTest, AnUnknownNameListsTheKnownOnes) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  ASSERT_THAT(registry.Register("Tree", Factory()), IsOk());
  EXPECT_THAT(registry.Find("Star"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"Star\""), HasSubstr("Ring, Tree"))));
}

TEST(RegistryTest, AnUnknownNameGetsTheNearestKnownOne) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("RingReduce", Factory()), IsOk());
  ASSERT_THAT(registry.RegisterAlias("RingReducer", "RingReduce"), IsOk());
  EXPECT_THAT(registry.Find("ringreduce").status().message(),
              HasSubstr("(did you mean RingReduce?)"));
  EXPECT_THAT(registry.Find("RingRedcuers").status().message(),
              HasSubstr("(did you mean RingReducer?)"));
  EXPECT_THAT(registry.Find("Tree").status().message(),
              Not(HasSubstr("did you mean")));
}

TEST(RegistryTest, AnAliasFindsWhatItStandsFor) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.RegisterAlias("RingReducer", "Ring"), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  EXPECT_EQ(*registry.Find("RingReducer"), *registry.Find("Ring"));
  EXPECT_EQ(registry.Resolve("RingReducer"), "Ring");
  EXPECT_EQ(registry.Resolve("Ring"), "Ring");
  EXPECT_EQ(registry.List().size(), 1u);
}

TEST(RegistryTest, AnAliasThatIsTakenIsRefused) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  ASSERT_THAT(registry.RegisterAlias("Circle", "Ring"), IsOk());
  for (const char* taken : {"Ring", "Circle"}) {
    EXPECT_THAT(registry.RegisterAlias(taken, "Tree"),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(taken)));
  }
  EXPECT_THAT(registry.Register("Circle", Factory()),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Circle")));
}

class BareClass : public Nothing {
 public:
  static ImplementationTraits Traits() {
    return {.summary = "registered by its class",
            .collectives = {CollectiveType::kBarrier}};
  }
};

REGISTER_COLLECTIVE(RegisteredBareClass, BareClass);

TEST(RegistryTest, ABareClassIsRegisteredWithItsTraits) {
  const auto found = CollectiveRegistry::Global().Find("RegisteredBareClass");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->traits().summary, "registered by its class");
  EXPECT_NE(dynamic_cast<BareClass*>((*found)->Create().get()), nullptr);
}

TEST(RegistryTest, ListsInTheOrderOfNames) {
  CollectiveRegistry registry;
  for (const char* name : {"Tree", "Ring", "Star"}) {
    ASSERT_THAT(registry.Register(name, Factory(name)), IsOk());
  }
  std::vector<std::string> names;
  for (const auto& entry : registry.List()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.factory->traits().summary, entry.name);
  }
  EXPECT_THAT(names, ElementsAre("Ring", "Star", "Tree"));
}

TEST(RegistryTest, AFactoryMakesAnObjectOfItsClassEachTime) {
  const auto factory = Factory();
  const auto first = factory->Create();
  const auto second = factory->Create();
  EXPECT_NE(dynamic_cast<const Nothing*>(first.get()), nullptr);
  EXPECT_NE(first, second);
}

// Nothing here names registry_test_plugin.cc; the program only links it.
TEST(RegistryTest, LinkingALibraryIsEnoughToRegisterWhatItHas) {
  const auto found = CollectiveRegistry::Global().Find("LinkedPlugin");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->traits().summary, "registered by linking alone");
  EXPECT_THAT(CollectiveRegistry::Global().status(), IsOk());
}

TEST(RegistryTest, ThreadsMayRegisterAndLookUpAtATime) {
  constexpr int kThreads = 4;
  constexpr int kNames = 50;
  CollectiveRegistry registry;
  std::vector<std::thread> threads;
  std::vector<int> num_registered(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&registry, &count = num_registered[thread]] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = absl::StrCat("Ring", i);
        if (registry.Register(name, Factory(name)).ok()) ++count;
        const auto found = registry.Find(name);
        ASSERT_THAT(found, IsOk());
        EXPECT_EQ((*found)->traits().summary, name);
        EXPECT_GE(registry.List().size(), static_cast<size_t>(i + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int total = 0;
  for (int count : num_registered) total += count;
  EXPECT_EQ(total, kNames);
  EXPECT_EQ(registry.List().size(), size_t{kNames});
  EXPECT_THAT(registry.status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Ring")));
}

}  // namespace registry_test
}  // namespace tutti
