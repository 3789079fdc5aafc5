#include "remote/mpi/messages/mpi_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace mpi_wire_test {

using testing::HasSubstr;

PullRequest LargePull() {
  return {.key = {.exec = {1, -2, 3, 4, 5}, .tag = 6, .from = 7, .to = 8},
          .recv = {.num_bytes = kMaxInlineBytes + 8,
                   .dtype = DType::kFloat64,
                   .incarnation = ~uint64_t{0}},
          .payload_tag = 9};
}

PullRequest PullToRead() {
  PullRequest request = LargePull();
  request.payload_tag = 0;
  request.may_read_memory = true;
  return request;
}

proto::MpiPull Encoded(const PullRequest& request) {
  proto::MpiPull message;
  EncodePull(request, message);
  return message;
}

void ExpectInvalid(const proto::MpiPull& message, const char* field) {
  EXPECT_THAT(DecodePull(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
}

TEST(MpiWireTest, PullsSurviveTheWire) {
  for (const PullRequest& wanted : {LargePull(), PullToRead()}) {
    const auto found = DecodePull(Encoded(wanted));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->key, wanted.key);
    EXPECT_EQ(found->recv.num_bytes, wanted.recv.num_bytes);
    EXPECT_EQ(found->recv.dtype, wanted.recv.dtype);
    EXPECT_EQ(found->recv.incarnation, wanted.recv.incarnation);
    EXPECT_EQ(found->payload_tag, wanted.payload_tag);
    EXPECT_EQ(found->may_read_memory, wanted.may_read_memory);
  }
}

TEST(MpiWireTest, WrongFieldsAreNamed) {
  for (int dtype : {-1, 99, 256, std::numeric_limits<int>::max()}) {
    proto::MpiPull message = Encoded(LargePull());
    message.set_dtype(dtype);
    ExpectInvalid(message, "pull.dtype");
  }
  for (uint64_t num_bytes :
       {uint64_t{kMaxInlineBytes} + 9, uint64_t{1} << 62, ~uint64_t{0}}) {
    proto::MpiPull message = Encoded(LargePull());
    message.set_num_bytes(num_bytes);
    ExpectInvalid(message, "pull.num_bytes");
  }
  for (int tag : {-1, 0}) {
    proto::MpiPull message = Encoded(LargePull());
    message.set_payload_tag(tag);
    ExpectInvalid(message, "pull.payload_tag");
  }
  proto::MpiPull small = Encoded(LargePull());
  small.set_num_bytes(8);
  ExpectInvalid(small, "pull.payload_tag");
  proto::MpiPull read = Encoded(PullToRead());
  read.set_payload_tag(9);
  ExpectInvalid(read, "pull.payload_tag");
  read = Encoded(PullToRead());
  read.set_num_bytes(8);
  ExpectInvalid(read, "pull.may_read_memory");
}

}  // namespace mpi_wire_test
}  // namespace tutti
