#ifndef TUTTI_GPU_NCCL_NCCL_ORDER_H_
#define TUTTI_GPU_NCCL_NCCL_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "tutti/peer_access.h"

namespace tutti {

// A launch of a process on a communicator: what it is, which one it is, and
// what came before it. Equal on all processes if they launch in one order, and
// their members give the same rows.
struct NcclLaunchId {
  uint64_t number = 0;  // From 1.
  uint64_t digest = 0;  // Of this launch and all before it, in their order.
  int64_t instance = 0;
  uint64_t execution = 0;
  uint64_t rows_digest = 0;  // Of those given; set by NcclAgreement.

  friend bool operator==(const NcclLaunchId&, const NcclLaunchId&) = default;
};

// "launch 3, instance 7, execution 0".
std::string ToString(const NcclLaunchId& launch);

// A launch, and the key by which processes find each other's messages of it:
// the n-th launch of a step finds the n-th, whatever the others launched.
struct NcclTicket {
  NcclLaunchId launch;
  ExecKey key;
};

// The instance of those keys, which callers do not use.
inline constexpr int64_t kNcclOrderInstance = INT64_MIN;

// Counts the launches of one process on a communicator. Not thread-safe.
class NcclOrder {
 public:
  NcclTicket Next(const ExecKey& execution);

 private:
  // Launches of the steps that last began; a step that comes back later than
  // that counts anew, on all processes if they launch in one order.
  static constexpr size_t kMaxSteps = 1024;

  uint64_t number_ = 0;
  uint64_t digest_ = 0;
  std::map<int64_t, uint64_t> in_step_;
  std::deque<int64_t> steps_;  // Of in_step_, the oldest first.
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_ORDER_H_
