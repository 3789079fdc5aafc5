#ifndef TUTTI_FRAMEWORK_DEFAULT_ENVIRONMENT_H_
#define TUTTI_FRAMEWORK_DEFAULT_ENVIRONMENT_H_

#include <memory>

#include "framework/environment.h"

namespace tutti {

// An Environment for programs that bring none of their own: a pool of worker
// threads (Asio) that start with the first work, the system's clock with one
// timer thread that starts with the first alarm, and a random number generator
// seeded by the system. A program with a pool of its own takes the rest.
//
// Thread-safe. The destructor first drops the alarms that have not begun to
// ring, then runs the work that is queued, and joins its threads; it must not
// run on one of them.
class DefaultEnvironment {
 public:
  // Below one: one worker per processor.
  explicit DefaultEnvironment(int num_workers = 0);
  ~DefaultEnvironment();
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

  // Valid as long as this object.
  const Environment& get() const { return environment_; }

 private:
  class Pool;
  class SystemClock;
  class SystemRandom;

  const std::unique_ptr<SystemRandom> random_;
  const std::unique_ptr<SystemClock> clock_;
  const std::unique_ptr<Pool> pool_;
  const Environment environment_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEFAULT_ENVIRONMENT_H_
