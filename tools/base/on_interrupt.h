#ifndef TUTTI_TOOLS_BASE_ON_INTERRUPT_H_
#define TUTTI_TOOLS_BASE_ON_INTERRUPT_H_

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

namespace tutti {

// While it lives, SIGHUP, SIGINT, SIGQUIT and SIGTERM run `clean_up`, and then
// end the process as they would have. Those that the process ignores stay
// ignored.
//
// `clean_up` runs on a thread of its own, at any time until the destructor
// returns, and at most once: it may lock and allocate, which no signal handler
// may. One object at a time in a process.
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
