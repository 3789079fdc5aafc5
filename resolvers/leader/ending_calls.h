#ifndef TUTTI_RESOLVERS_LEADER_ENDING_CALLS_H_
#define TUTTI_RESOLVERS_LEADER_ENDING_CALLS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "tutti/params.h"

namespace tutti {

// Calls whose callback is running with an error. Keeps that error for reports:
// the caller's deadline may pass at that moment. Not thread-safe.
class EndingCalls {
 public:
  void Begin(const InstanceId& id, const absl::Status& error);

  // REQUIRES: a Begin() of the instance for each End().
  void End(const InstanceId& id);

  // Returns the last error of the instance's calls, or "".
  std::string ErrorOf(const InstanceId& id) const;

 private:
  struct OfInstance {
    int num_calls = 0;
    std::string error;
  };
  absl::flat_hash_map<InstanceId, OfInstance> calls_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_ENDING_CALLS_H_
