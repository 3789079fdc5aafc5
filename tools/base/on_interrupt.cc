#include "tools/base/on_interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tutti {
namespace {

constexpr unsigned char kEnd = 0;  // No signal has this number.

// Carries the signal number from the handler, which may do little more than
// write, to the thread. Never closed: a handler may still run after
// ~OnInterrupt().
struct SignalPipe {
  int ends[2] = {-1, -1};

  SignalPipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  }
};

SignalPipe& ThePipe() {
  static SignalPipe pipe;
  return pipe;
}

void Send(unsigned char number) {
  while (write(ThePipe().ends[1], &number, 1) < 0 && errno == EINTR) {
  }
}

void Handle(int signal) {
  const int saved_errno = errno;
  Send(static_cast<unsigned char>(signal));
  errno = saved_errno;
}

unsigned char Receive() {
  unsigned char number = kEnd;
  while (read(ThePipe().ends[0], &number, 1) < 0 && errno == EINTR) {
  }
  return number;
}

}  // namespace

void EndBySignal(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  raise(signal);
  _exit(128 + signal);  // Reached if `signal` is not fatal.
}

OnInterrupt::OnInterrupt(std::function<void()> clean_up)
    : clean_up_(std::move(clean_up)) {
  // Without a pipe, signals end the process at once.
  if (ThePipe().ends[0] < 0) return;
  thread_ = std::thread([this] {
    const unsigned char number = Receive();
    if (number == kEnd) return;
    clean_up_();
    EndBySignal(number);
  });
  for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    struct sigaction old_action = {};
    sigaction(number, nullptr, &old_action);
    if (old_action.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = Handle;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
    replaced_.push_back({number, old_action});
  }
}

OnInterrupt::~OnInterrupt() {
  for (const Replaced& replaced : replaced_) {
    sigaction(replaced.signal, &replaced.action, nullptr);
  }
  if (!thread_.joinable()) return;
  Send(kEnd);
  thread_.join();
}

}  // namespace tutti
