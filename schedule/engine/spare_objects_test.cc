#include "schedule/engine/spare_objects.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace tutti {
namespace spare_objects_test {

constexpr size_t kHalf = SpareBytes::kMostBytes / 2;

// Counts its living objects.
struct Counted {
  explicit Counted(int* num_living) : num_living(num_living) { ++*num_living; }
  ~Counted() { --*num_living; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int* const num_living;
};

class SpareObjectsTest : public testing::Test {
 protected:
  using Spares = SpareObjects<Counted>;

  void Keep(Spares& spares, int count) {
    for (int i = 0; i < count; ++i) {
      spares.Keep(std::make_unique<Counted>(&num_living_));
    }
  }

  const std::shared_ptr<SpareBytes> bytes_ = std::make_shared<SpareBytes>();
  int num_living_ = 0;
};

TEST_F(SpareObjectsTest, WhatIsKeptLastIsTakenFirst) {
  Spares spares(bytes_, 1);
  auto first = std::make_unique<Counted>(&num_living_);
  auto second = std::make_unique<Counted>(&num_living_);
  const Counted* const objects[] = {first.get(), second.get()};
  spares.Keep(std::move(first));
  spares.Keep(std::move(second));
  first = spares.Take();
  second = spares.Take();
  EXPECT_EQ(first.get(), objects[1]);
  EXPECT_EQ(second.get(), objects[0]);
  EXPECT_EQ(spares.Take(), nullptr);
}

TEST_F(SpareObjectsTest, KeepsNoMoreThanItMayAndNothingAtTheEnd) {
  {
    Spares spares(bytes_, 1);
    Keep(spares, 5);
    EXPECT_EQ(num_living_, static_cast<int>(Spares::kMostKept));
  }
  EXPECT_EQ(num_living_, 0);
}

TEST_F(SpareObjectsTest, AllOfAGroupKeepNoMoreBytesThanTheyMay) {
  std::optional<Spares> large(std::in_place, bytes_, kHalf);
  Keep(*large, 1);
  Spares small(bytes_, kHalf / 2 + 1);
  Keep(small, 2);
  EXPECT_EQ(num_living_, 2);
  Keep(*large, 1);
  EXPECT_EQ(num_living_, 2);
  large.reset();
  EXPECT_EQ(num_living_, 1);
  Keep(small, 1);
  EXPECT_EQ(num_living_, 2);
}

TEST_F(SpareObjectsTest, APlaceIsCountedOnceHoweverOftenItIsUsed) {
  Spares spares(bytes_, kHalf);
  Keep(spares, 1);
  for (int i = 0; i < 10; ++i) spares.Keep(spares.Take());
  EXPECT_EQ(num_living_, 1);
  EXPECT_TRUE(bytes_->Take(kHalf));
  EXPECT_FALSE(bytes_->Take(1));
}

TEST_F(SpareObjectsTest, WhatIsTooLargeIsNotKept) {
  Spares spares(bytes_, SpareBytes::kMostBytes + 1);
  Keep(spares, 1);
  EXPECT_EQ(num_living_, 0);
}

}  // namespace spare_objects_test
}  // namespace tutti
