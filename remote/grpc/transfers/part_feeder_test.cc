#include "remote/grpc/transfers/part_feeder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace part_feeder_test {

using testing::ElementsAre;

class Collector final : public Receiver {
 public:
  absl::Status OnPart(int32_t id, size_t offset,
                      absl::Span<const std::byte> part) override {
    if (id != 5 || offset != bytes.size()) {
      return absl::InternalError("wrong place");
    }
    bytes.insert(bytes.end(), part.begin(), part.end());
    sizes.push_back(part.size());
    return result;
  }
  void OnDelivery(int32_t, absl::Status, Delivery) override {}

  std::vector<std::byte> bytes;
  std::vector<size_t> sizes;
  absl::Status result;
};

// Feeds 0, 1, 2, ... in pieces of these sizes.
Collector Fed(DType dtype, const std::vector<size_t>& sizes) {
  Collector collector;
  PartFeeder feeder({.dtype = dtype, .receiver = &collector, .id = 5});
  std::byte next{0};
  for (const size_t size : sizes) {
    std::vector<std::byte> piece(size);
    for (std::byte& byte : piece) {
      byte = next;
      next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
    }
    EXPECT_THAT(feeder.Feed(piece), IsOk());
  }
  return collector;
}

TEST(PartFeederTest, GivesWholeElementsWhereTheyLie) {
  EXPECT_THAT(Fed(DType::kFloat32, {8, 4, 16}).sizes, ElementsAre(8, 4, 16));
}

TEST(PartFeederTest, MendsElementsThatAreTorn) {
  EXPECT_THAT(Fed(DType::kFloat32, {6, 6}).sizes, ElementsAre(4, 4, 4));
  EXPECT_THAT(Fed(DType::kFloat64, {1, 1, 1, 1, 1, 1, 1, 1}).sizes,
              ElementsAre(8));
  EXPECT_THAT(Fed(DType::kFloat16, {1, 0, 4, 0, 1}).sizes,
              ElementsAre(2, 2, 2));
}

TEST(PartFeederTest, AllBytesComeInOrderHoweverTheyAreCut) {
  for (const DType dtype : kAllDTypes) {
    for (size_t piece = 1; piece < 20; ++piece) {
      const size_t total = 40;
      std::vector<size_t> sizes(total / piece, piece);
      sizes.push_back(total % piece);
      const Collector collector = Fed(dtype, sizes);
      ASSERT_EQ(collector.bytes.size(), total);
      for (size_t i = 0; i < total; ++i) {
        EXPECT_EQ(collector.bytes[i], static_cast<std::byte>(i));
      }
      for (const size_t size : collector.sizes) {
        EXPECT_EQ(size % SizeOf(dtype), 0);
      }
    }
  }
}

TEST(PartFeederTest, PassesOnTheBorrowersError) {
  Collector collector;
  collector.result = absl::DataLossError("no");
  PartFeeder feeder({.dtype = DType::kInt32, .receiver = &collector, .id = 5});
  const std::byte bytes[6] = {};
  EXPECT_THAT(feeder.Feed(bytes), StatusIs(absl::StatusCode::kDataLoss, "no"));
}

}  // namespace part_feeder_test
}  // namespace tutti
