#include "named_tensors/request_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "named_tensors/coordinator_codec.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace request_batches_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TensorRequest Reduction(std::string name) {
  return {.name = std::move(name),
          .shape = *TensorShape::Create({2, 3}),
          .merge_op = "sum"};
}

TEST(RequestBatchesTest, RequestsComeOutAsTheyWentInWhateverTheirNames) {
  RequestBatches batches;
  std::vector<TensorRequest> in;
  for (const size_t size : {1, 65536, 20000, 30000, 40000, 41000, 3, 65535}) {
    in.push_back(Reduction(std::string(size, static_cast<char>(in.size()))));
    batches.Add(in.size(), in.back(), std::nullopt);
  }
  std::vector<TensorRequest> out;
  std::vector<uint64_t> ids;
  std::string name_head;
  uint64_t number = 0;
  while (!batches.empty()) {
    const RequestBatches::Batch batch = batches.TakeNext();
    EXPECT_LE(batch.message.ByteSizeLong(), size_t{60} << 10);
    EXPECT_EQ(batch.message.number(), ++number);
    EXPECT_EQ(batch.message.first_request(), ids.size() + 1);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    name_head += batch.message.name_head();
    for (const proto::TensorRequest& one : batch.message.requests()) {
      const auto request = DecodeTensorRequest(name_head, one);
      ASSERT_THAT(request, IsOk());
      out.push_back(*request);
      name_head.clear();
    }
  }
  EXPECT_EQ(out, in);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(RequestBatchesTest, KnownRequestsAreBitsAndCountAfterTheOthers) {
  RequestBatches batches;
  batches.Add(1, Reduction("a"), 17);
  batches.Add(2, Reduction("b"), std::nullopt);
  batches.Add(3, Reduction("c"), 3);
  const RequestBatches::Batch batch = batches.TakeNext();
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(batch.message.requests_size(), 1);
  EXPECT_THAT(batch.ids, ElementsAre(2, 3, 1));
  EXPECT_EQ(batch.message.slots().size(), 3u);
  EXPECT_THAT(DecodeSlots(batch.message.slots()), ElementsAre(3, 17));
}

TEST(RequestBatchesTest, AThousandKnownNamesTakeABitEach) {
  RequestBatches batches;
  for (uint32_t i = 0; i < 1000; ++i) {
    batches.Add(i, Reduction(std::to_string(i)), i);
  }
  EXPECT_LE(batches.TakeNext().message.ByteSizeLong(), 1000u / 8 + 16);
  EXPECT_TRUE(batches.empty());
  EXPECT_THAT(DecodeSlots(EncodeSlots({})), IsEmpty());
}

}  // namespace request_batches_test
}  // namespace tutti
