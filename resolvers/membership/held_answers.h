#ifndef TUTTI_RESOLVERS_MEMBERSHIP_HELD_ANSWERS_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_HELD_ANSWERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/environment.h"

namespace tutti {

// Calls of one kind that are answered as late as their callers allow, or when
// there is something to say. Thread-safe.
class HeldAnswers : public std::enable_shared_from_this<HeldAnswers> {
 public:
  using MakeAnswer = std::function<ControlAnswer(const ControlCaller& caller)>;

  // `clock` outlives the object. `name`: name of the calls, for errors. `make`
  // makes an answer when it is due; runs with no lock held.
  HeldAnswers(Clock* clock, std::string name, MakeAnswer make)
      : clock_(clock), name_(std::move(name)), make_(std::move(make)) {}
  ~HeldAnswers();

  // Answers the call after `hold_ms`, or at Release(). Errors: INVALID_ARGUMENT
  // for a time that is negative or longer than a minute; RESOURCE_EXHAUSTED if
  // too many calls of the task wait; the reason of `withdrawn`.
  void Add(const ControlCaller& caller, int64_t hold_ms,
           const std::shared_ptr<Cancellation>& withdrawn, ControlDone done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Answers all calls that wait.
  void Release() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    ControlCaller caller;
    ControlDone done;
    Clock::AlarmId alarm = 0;
  };

  void Answer(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  void End(uint64_t id, const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  std::optional<Waiting> Take(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  Clock* const clock_;
  const std::string name_;
  const MakeAnswer make_;
  Mutex mu_;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int, int> num_of_task_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_HELD_ANSWERS_H_
