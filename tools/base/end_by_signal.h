#ifndef TUTTI_TOOLS_BASE_END_BY_SIGNAL_H_
#define TUTTI_TOOLS_BASE_END_BY_SIGNAL_H_

namespace tutti {

// Ends the process as the signal does where nobody handles it, so that whoever
// waits for the process sees why it ended.
[[noreturn]] void EndBySignal(int signal);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_END_BY_SIGNAL_H_
