#ifndef TUTTI_RESOLVERS_MEMBERSHIP_HEARTBEAT_SERVICE_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_HEARTBEAT_SERVICE_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/environment.h"

namespace tutti {

// Answers heartbeats, as late as the caller allows. Thread-safe.
class HeartbeatService : public std::enable_shared_from_this<HeartbeatService> {
 public:
  // `clock` outlives the object. `incarnation` is that of this process.
  HeartbeatService(Clock* clock, uint64_t incarnation)
      : clock_(clock), incarnation_(incarnation) {}
  ~HeartbeatService();

  // Answers a heartbeat after its hold time. Errors: INVALID_ARGUMENT for a
  // time that is negative or longer than a minute; RESOURCE_EXHAUSTED if the
  // task has too many waiting heartbeats; the reason of `withdrawn`.
  void Answer(const ControlCaller& caller, const proto::Heartbeat& message,
              std::shared_ptr<Cancellation> withdrawn, ControlDone done)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    int task = 0;
    ControlDone done;
    Clock::AlarmId alarm = 0;
  };

  void End(uint64_t id, ControlAnswer answer) ABSL_LOCKS_EXCLUDED(mu_);
  ControlAnswer Reply() const;

  Clock* const clock_;
  const uint64_t incarnation_;
  Mutex mu_;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int, int> num_of_task_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_HEARTBEAT_SERVICE_H_
