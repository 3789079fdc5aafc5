#ifndef TUTTI_GPU_NCCL_NCCL_ORDER_H_
#define TUTTI_GPU_NCCL_NCCL_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "tutti/peer_access.h"

namespace tutti {

// Identity of a launch of a process on a communicator: its execution, its
// number, and a digest of all launches up to it. Equal on all processes if they
// launch in one order and their members give the same rows.
struct NcclLaunchId {
  uint64_t number = 0;  // Counted from 1.
  uint64_t digest = 0;  // Digest of this and all earlier launches.
  int64_t instance = 0;
  uint64_t execution = 0;
  uint64_t rows_digest = 0;  // Digest of given rows; set by NcclAgreement.

  friend bool operator==(const NcclLaunchId&, const NcclLaunchId&) = default;
};

// Returns "launch 3, instance 7, execution 0".
std::string ToString(const NcclLaunchId& launch);

// A launch, and the key under which processes exchange messages about it. The
// key depends only on the launch's number in its step: the n-th launch meets
// the n-th of another process, whichever they are.
struct NcclTicket {
  NcclLaunchId launch;
  ExecKey key;
};

// Instance of these keys. Callers do not use it.
inline constexpr int64_t kNcclOrderInstance = INT64_MIN;

// Counts the launches of one process on a communicator. Not thread-safe.
class NcclOrder {
 public:
  NcclTicket Next(const ExecKey& execution);

 private:
  // Bound on the steps whose launches are counted. A step that returns after so
  // many others counts from 0 again. All processes do the same if they launch
  // in one order.
  static constexpr size_t kMaxSteps = 1024;

  uint64_t number_ = 0;
  uint64_t digest_ = 0;
  std::map<int64_t, uint64_t> in_step_;
  std::deque<int64_t> steps_;  // Keys of in_step_, oldest first.
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_ORDER_H_
