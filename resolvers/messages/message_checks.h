#ifndef TUTTI_RESOLVERS_MESSAGES_MESSAGE_CHECKS_H_
#define TUTTI_RESOLVERS_MESSAGES_MESSAGE_CHECKS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tutti {

// Bounds on the fields of a message, and the error of a field that breaks one.

inline constexpr int kMaxDims = 255;
inline constexpr int kMaxDeviceIndex = 65535;

template <typename... Args>
absl::Status InvalidMessage(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MESSAGES_MESSAGE_CHECKS_H_
