#include "remote/grpc/transfers/record_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace record_queue_test {

TEST(RecordQueueTest, RecordsShareAMessageUpToItsLargestSize) {
  constexpr size_t kMostRecords = kMaxRecordsBytes / kRecordBytes;
  RecordQueue queue;
  for (size_t i = 0; i < kMostRecords + 1; ++i) {
    queue.Add({.kind = RecordKind::kRead, .id = i});
  }
  EXPECT_EQ(queue.TakeMessage().size(), kMaxRecordsBytes);
  EXPECT_EQ(queue.TakeMessage().size(), kRecordBytes);
  EXPECT_TRUE(queue.empty());
}

TEST(RecordQueueTest, TheTextOfAStatusFollowsItsRecord) {
  RecordQueue queue;
  queue.Add({.kind = RecordKind::kCancel, .id = 1, .num_bytes = 4}, "late");
  queue.Add({.kind = RecordKind::kRead, .id = 2});
  const std::string message = queue.TakeMessage();
  ASSERT_EQ(message.size(), 2 * kRecordBytes + 4);
  EXPECT_EQ(message.substr(kRecordBytes, 4), "late");
}

}  // namespace record_queue_test
}  // namespace tutti
