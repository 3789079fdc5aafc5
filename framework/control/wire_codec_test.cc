#include "framework/control/wire_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace wire_codec_test {

constexpr int kHuge = std::numeric_limits<int>::max();

TEST(WireCodecTest, ErrorsSurviveTheWireWhateverTheirBytes) {
  const absl::Status status =
      absl::AbortedError(std::string("a\xff\0b", 4) + std::string(9000, 'x'));
  proto::Error message;
  ASSERT_TRUE(message.ParseFromString(EncodeError(status).SerializeAsString()));
  EXPECT_THAT(CheckError(message), IsOk());
  EXPECT_THAT(DecodeError(message), IsAborted("a\xff"));
  for (int code : {0, -1, 17, kHuge}) {
    message.set_code(code);
    EXPECT_THAT(CheckError(message),
                IsInvalidArgument(absl::StrCat("error.code is ", code)));
    EXPECT_THAT(DecodeError(message), IsUnknown("error.code"));
  }
  message.set_code(1);
  message.set_message(std::string(1 << 20, 'x'));
  EXPECT_THAT(CheckError(message), IsInvalidArgument("error.message"));
}

TEST(WireCodecTest, KeysSurviveTheWire) {
  const ExecKey key{.generation = ~uint64_t{0},
                    .step = -1,
                    .group = std::numeric_limits<int64_t>::min(),
                    .instance = 4,
                    .execution = 5};
  EXPECT_EQ(DecodeKey(EncodeKey(key)), key);
}

}  // namespace wire_codec_test
}  // namespace tutti
