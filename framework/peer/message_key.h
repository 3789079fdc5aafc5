#ifndef TUTTI_FRAMEWORK_PEER_MESSAGE_KEY_H_
#define TUTTI_FRAMEWORK_PEER_MESSAGE_KEY_H_

#include <cstdint>
#include <string>

#include "tutti/collective.h"
#include "tutti/peer_access.h"

namespace tutti {

// Sender, receiver and tag of messages between two members of a group
// (CollectiveExecutor::SendAsync). In keys it stands for an instance, and the
// n-th message for its n-th execution, counted from kMessages on. No collective
// and no preparation reaches that number, so the keys never collide. A path
// from a member to itself stands for its receives from any member.
struct MessagePath {
  int from = 0;
  int to = 0;
  int32_t tag = 0;
};

// Returns "rank 1 to rank 2, tag 7", or "any member to rank 2, tag 7".
std::string ToString(const MessagePath& path);

inline constexpr uint64_t kMessages = uint64_t{3} << 62;

inline bool IsMessage(const ExecKey& key) { return key.execution >= kMessages; }

// Tags of the two transfers of a message (BufKey::tag). The announcement has no
// bytes and nobody posts it: it is delivered while the message itself is posted
// and not received. Only receives from any member request it.
inline constexpr int32_t kMessageTag = 0;
inline constexpr int32_t kAnnouncementTag = -1;

inline bool IsAnnouncement(const BufKey& key) {
  return key.tag == kAnnouncementTag && IsMessage(key.exec);
}

// Different paths have different keys.
static_assert(kMaxGroupSize <= 1 << 16);

inline InstanceKey KeyOf(const MessagePath& path) {
  return static_cast<InstanceKey>(static_cast<uint64_t>(path.from) << 48 |
                                  static_cast<uint64_t>(path.to) << 32 |
                                  static_cast<uint32_t>(path.tag));
}

// Inverse of KeyOf().
inline MessagePath PathOf(InstanceKey key) {
  const auto bits = static_cast<uint64_t>(key);
  return {.from = static_cast<int>(bits >> 48),
          .to = static_cast<int>(bits >> 32 & 0xffff),
          .tag = static_cast<int32_t>(bits)};
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PEER_MESSAGE_KEY_H_
