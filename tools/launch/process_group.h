#ifndef TUTTI_TOOLS_LAUNCH_PROCESS_GROUP_H_
#define TUTTI_TOOLS_LAUNCH_PROCESS_GROUP_H_

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/base/unique_fd.h"
#include "tools/launch/line_splitter.h"
#include "tools/launch/output_queue.h"
#include "tools/launch/start_process.h"

namespace tutti {

// Programs that run together, as children of this process: what they print is
// handed on line by line, and when one fails, all are stopped.
//
// Stopping is SIGTERM (to processes that stand still too), and SIGKILL to those
// that are still there when the grace period is over. SIGHUP, SIGINT and
// SIGTERM that come to this process, unless it ignores them, go to all of them
// instead, and begin the grace period too.
//
// Nothing is left: each child leads a process group of its own, which ends with
// it, and the kernel kills the children if this process is gone, however that
// came. Out of reach are only those of their children that made a process group
// of their own.
//
// All of it is for one thread, in a process in which no other thread has
// SIGCHLD or the signals above unblocked. One object at a time.
class ProcessGroup {
 public:
  enum class Stream : uint8_t { kOut, kErr };

  struct Options {
    absl::Duration grace = absl::Seconds(10);

    // Takes what process `index` wrote: pieces as of LineSplitter. All pieces
    // of a stream come, in order, before the process counts as ended.
    std::function<void(int index, Stream stream, absl::string_view piece)>
        on_output;

    // Asked after output was handed on: false stops all. Null: never.
    std::function<bool()> may_go_on;

    // Where `on_output` puts things. Wait() writes them when they can be, and
    // takes no output while one of them is full. What is not written when all
    // were to end and the grace period is over is given up.
    std::vector<OutputQueue*> queues;
  };

  struct Result {
    std::vector<int> wait_statuses;  // As of waitpid(2), by index.

    // Why the others were stopped, whichever came first; neither is set if
    // all ended by themselves, with success.
    std::optional<int> first_failed;  // By index.
    std::optional<int> signal;        // That came to this process.
  };

  // Runs the programs with nothing on their standard input. Errors: those of
  // StartProcess(), after which none runs; what else the system refuses.
  static absl::StatusOr<std::unique_ptr<ProcessGroup>> Start(
      const std::vector<Program>& programs, Options options);

  // Kills what still runs.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Blocks until all have ended, and what they wrote is written.
  Result Wait();

  // By index; those of processes that have ended may belong to others now.
  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  struct Pipe {
    UniqueFd fd;  // Not set once the other end is closed.
    LineSplitter lines;
  };
  struct Process {
    pid_t pid = 0;
    bool running = false;
    Pipe pipes[2];  // By Stream.
  };
  // A process that has ended, and is still there to be waited for.
  struct Ended {
    int index;
    bool by_signal;
  };

  explicit ProcessGroup(Options options) : options_(std::move(options)) {}

  absl::Status TakeSignals();
  absl::Status StartOne(const Program& program);

  // One look at all that can happen.
  void WaitForEvents();
  bool IsWriting() const;
  // Returns how many bytes it took.
  int ReadPipe(int index, Stream stream);
  void ClosePipe(int index, Stream stream);
  void ReadSignals();
  void EndGrace();
  void Reap();
  void End(int index);

  // To all that run, which have the grace period from now on.
  void Stop(int signal);
  void SignalAll(int signal);

  const Options options_;
  std::optional<sigset_t> old_mask_;  // Of this thread, once it is changed.
  UniqueFd signals_;                  // Of signalfd(2).
  UniqueFd grace_;  // Of timerfd_create(2); runs from the first Stop() on.
  bool stopping_ = false;
  std::vector<Process> processes_;
  std::vector<pid_t> pids_;
  int num_running_ = 0;
  Result result_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_PROCESS_GROUP_H_
