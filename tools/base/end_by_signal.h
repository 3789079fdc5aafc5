#ifndef TUTTI_TOOLS_BASE_END_BY_SIGNAL_H_
#define TUTTI_TOOLS_BASE_END_BY_SIGNAL_H_

namespace tutti {

// Ends the process by the signal's default action, so that the parent process
// sees the signal in the exit status.
[[noreturn]] void EndBySignal(int signal);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_END_BY_SIGNAL_H_
