#include "tools/base/end_by_signal.h"

#include <unistd.h>

#include <csignal>

namespace tutti {

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

}  // namespace tutti
