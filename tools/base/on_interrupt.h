#ifndef TUTTI_TOOLS_BASE_ON_INTERRUPT_H_
#define TUTTI_TOOLS_BASE_ON_INTERRUPT_H_

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

namespace tutti {

// Ends the process by the signal's default action, so that the parent process
// sees the signal in the exit status.
[[noreturn]] void EndBySignal(int signal);

// While the object exists, SIGHUP, SIGINT, SIGQUIT and SIGTERM first run
// `clean_up` and then end the process by the same signal. Signals that the
// process ignores stay ignored.
//
// `clean_up` runs at most once, on a separate thread, at any time until the
// destructor returns. It may lock and allocate, which signal handlers may not.
// Only one object may exist in a process at a time.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> clean_up);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  struct Replaced {
    int signal;
    struct sigaction action;
  };

  const std::function<void()> clean_up_;
  std::vector<Replaced> replaced_;
  std::thread thread_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_ON_INTERRUPT_H_
