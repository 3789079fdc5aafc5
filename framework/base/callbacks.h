#ifndef TUTTI_FRAMEWORK_BASE_CALLBACKS_H_
#define TUTTI_FRAMEWORK_BASE_CALLBACKS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tutti/environment.h"

namespace tutti {

// Runs `work` on this thread, inside this call. Inside other such work, runs it
// after that work has ended. So a chain of callbacks that each cause the next
// one does not deepen the stack. Work that throws holds up no other work; the
// outermost call then throws the first exception.
void RunOnTrampoline(Work work);

// Runs `done(status)` by RunOnTrampoline(). For callbacks that may issue the
// next call, which may fail in the same way.
void FinishOnTrampoline(StatusCallback done, absl::Status status);

// Returns a callback that calls `method` of the object: with `bound`, then with
// the callback's own arguments. The callback keeps the object while it runs,
// and does nothing once the object is gone.
template <typename T, typename Method, typename... Bound>
auto IfAlive(std::weak_ptr<T> object, Method method, Bound... bound) {
  return [object = std::move(object), method = std::move(method),
          ... bound = std::move(bound)](auto&&... args) mutable {
    if (const auto alive = object.lock()) {
      std::invoke(method, *alive, bound...,
                  std::forward<decltype(args)>(args)...);
    }
  };
}

// Runs a function on one thread at a time. A call that comes while the function
// runs, on any thread or from inside, returns at once: the running thread then
// runs the function again, and the last run sees all that its callers changed.
class RunAgain {
 public:
  // REQUIRES: all calls pass the same function.
  void Run(absl::FunctionRef<void()> function) {
    if (num_calls_.fetch_add(1) > 0) return;
    for (int64_t num_seen = 1; num_seen > 0;) {
      try {
        function();
      } catch (...) {
        num_calls_ = 0;  // Later calls run it again.
        throw;
      }
      num_seen = num_calls_.fetch_sub(num_seen) - num_seen;
    }
  }

 private:
  std::atomic<int64_t> num_calls_{0};  // Calls that no run has followed.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_CALLBACKS_H_
