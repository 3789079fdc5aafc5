#ifndef TUTTI_RESOLVERS_LEADER_LEADER_REQUESTS_H_
#define TUTTI_RESOLVERS_LEADER_LEADER_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Request of a member of this task to the leader.
struct LeaderRequest {
  InstanceId id;
  std::optional<CallNumber> number;  // None: wants the group alone.
  DeviceAttributes device;
  std::string device_name;
  std::shared_ptr<const CollectiveRequest> request;
  uint64_t place = 0;  // Position among all requests.
  std::shared_ptr<Cancellation> withdrawn = std::make_shared<Cancellation>();

  // Fields below change, under the lock of the object that sends the request.
  ParamResolverInterface::Done done;
  int leader = -1;  // Task that got the last request.
  bool is_polled = false;
  int attempt = 0;  // Number of requests sent.
  uint64_t living_generation = 0;
  std::optional<absl::Time> in_vain_since;  // First vain request.
  std::optional<absl::Status> end_reason;   // Set by EndGroup().
};
using LeaderRequestPtr = std::shared_ptr<LeaderRequest>;

// Request and its receiver at one moment: the request may be repeated
// meanwhile.
struct LeaderAttempt {
  int number = 0;
  int leader = 0;
  uint64_t ended_generation = 0;
  uint64_t living_generation = 0;
  bool wait_until_reachable = false;
};

// Requests that wait for an answer. Not thread-safe.
class LeaderRequests {
 public:
  // Adds a request, and sets its place after all earlier ones.
  void Add(const LeaderRequestPtr& question);
  bool Contains(const LeaderRequest& question) const;

  // REQUIRES: Contains(question).
  void Remove(const LeaderRequest& question);

  // Returns any request that waits for the instance; null if none does.
  const LeaderRequest* FindAny(InstanceId id) const;

  // Returns the device's requests for the instance, in the order of places.
  std::vector<LeaderRequestPtr> OfDevice(InstanceId id,
                                         const std::string& device_name) const;

  std::vector<LeaderRequestPtr> Where(
      absl::FunctionRef<bool(const LeaderRequest&)> matches) const;

  // Sets the reason to end of the group's requests that have none, and returns
  // all its requests.
  std::vector<LeaderRequestPtr> SetEndReason(GroupKey key,
                                             const absl::Status& reason);

  // Returns those of `questions` that still wait for `leader`, by place.
  std::vector<LeaderRequestPtr> SentTo(
      int leader, const std::vector<LeaderRequestPtr>& questions) const;

  // Returns the other tasks that were sent requests, in order.
  std::vector<int> RequestedTasks() const;

  size_t size() const { return size_; }

 private:
  // Keyed by the device's name and the place.
  using OfInstance =
      std::map<std::pair<std::string, uint64_t>, LeaderRequestPtr>;

  absl::flat_hash_map<InstanceId, OfInstance> questions_;
  size_t size_ = 0;
  uint64_t last_place_ = 0;
};

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

#endif  // TUTTI_RESOLVERS_LEADER_LEADER_REQUESTS_H_
