#include "remote/grpc/wire/status_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace status_codec_test {

TEST(StatusCodecTest, CodesAndMessagesSurvive) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(StatusCodecTest, CutsBetweenCharacters) {
  EXPECT_EQ(Cut("abc", 3), "abc");
  EXPECT_EQ(Cut("abc", 2), "ab");
  EXPECT_EQ(Cut("a\xc3\xa9", 2), "a");
  EXPECT_EQ(Cut("\x80\x80\x80", 2), "");
}

TEST(StatusCodecTest, ConnectionErrorsAreSaidInPlainWords) {
  const auto error = [](grpc::StatusCode code, const std::string& text) {
    return ConnectionError("task 3 (host:1)", grpc::Status(code, text));
  };
  EXPECT_THAT(error(grpc::StatusCode::UNAVAILABLE,
                    "failed to connect to all addresses; last error: UNKNOWN: "
                    "ipv4:127.0.0.1:1: Failed to connect to remote host: "
                    "Connection refused"),
              StatusIs(absl::StatusCode::kUnavailable,
                       "task 3 (host:1): connection refused"));
  for (const char* text :
       {"Socket closed", "Transport closed",
        "failed to connect to all addresses; last error: UNAVAILABLE: "
        "ipv4:127.0.0.1:1: Endpoint read failed",
        "failed to connect to all addresses; last error: UNKNOWN: "
        "ipv4:127.0.0.1:1: Handshake read failed"}) {
    EXPECT_THAT(error(grpc::StatusCode::UNAVAILABLE, text),
                StatusIs(absl::StatusCode::kUnavailable,
                         "task 3 (host:1): connection closed"));
  }
  for (const char* text : {"keepalive watchdog timeout",
                           "failed to connect to all addresses; last error: "
                           "UNKNOWN: ipv4:127.0.0.1:1: tcp handshaker "
                           "shutdown"}) {
    EXPECT_THAT(
        error(grpc::StatusCode::UNAVAILABLE, text),
        StatusIs(absl::StatusCode::kUnavailable, "task 3 (host:1): no answer"));
  }
  for (const char* text :
       {"UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing HTTP/2",
        "Received http2 header with status: 404"}) {
    EXPECT_THAT(error(grpc::StatusCode::UNAVAILABLE, text),
                StatusIs(absl::StatusCode::kUnavailable,
                         "task 3 (host:1): what answers there is no task"));
  }
  EXPECT_THAT(error(grpc::StatusCode::CANCELLED, "CANCELLED"),
              StatusIs(absl::StatusCode::kUnavailable,
                       "task 3 (host:1): connection closed"));
  EXPECT_THAT(error(grpc::StatusCode::UNAVAILABLE, "something new"),
              StatusIs(absl::StatusCode::kUnavailable,
                       "task 3 (host:1): something new"));
  EXPECT_THAT(error(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "task 3 (host:1): too large"));
}

}  // namespace status_codec_test
}  // namespace tutti
