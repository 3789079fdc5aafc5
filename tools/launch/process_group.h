#ifndef TUTTI_TOOLS_LAUNCH_PROCESS_GROUP_H_
#define TUTTI_TOOLS_LAUNCH_PROCESS_GROUP_H_

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "tutti/environment.h"

namespace tutti {

// Cuts a stream of bytes into lines, each with its newline. The pieces together
// equal the stream. A line longer than kMaxPieceBytes comes in several pieces,
// which bounds the memory of a stream. The last line has no newline if the
// stream ends without one.
class LineSplitter {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{64} << 10;

  using Take = absl::FunctionRef<void(absl::string_view)>;

  void Add(absl::string_view bytes, Take take);

  // Passes on the last piece if it has no newline.
  void Finish(Take take);

 private:
  std::string rest_;
};

// Queue of bytes for a descriptor whose reader may be slow. As a stream buffer
// it accepts everything at once; the owner calls WriteSome() when poll(2) says
// that the descriptor is writable. For one thread.
class OutputQueue : public std::streambuf {
 public:
  // Size from which the queue counts as full: producers should wait.
  static constexpr size_t kFullBytes = size_t{1} << 20;

  // Does not own the descriptor; -1 means none.
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  bool is_empty() const { return next_ == text_.size(); }
  bool is_full() const { return text_.size() - next_ >= kFullBytes; }

  // True after a failed write or Drop(): the queue then accepts nothing.
  bool failed() const { return failed_; }

  // Writes no more than a writable pipe accepts at once. REQUIRES: the
  // descriptor is writable, or may block.
  void WriteSome();

  // Blocks until everything is written.
  void WriteAll();

  // Drops all bytes not yet written.
  void Drop();

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize size) override;
  int_type overflow(int_type character) override;

 private:
  const int descriptor_;
  std::string text_;
  size_t next_ = 0;  // In `text_`: the bytes before it are written.
  bool failed_ = false;
};

struct Program {
  std::vector<std::string> words;        // The first one is the path of a file.
  std::vector<std::string> environment;  // "NAME=value", added to ours.

  // Descriptors of this process, larger than 2, that the new process inherits
  // under the same numbers.
  std::vector<int> descriptors;
};

// Initial state of a new process.
struct ProcessStart {
  int out = -1;        // Becomes its standard output.
  int err = -1;        // Becomes its standard error.
  sigset_t mask = {};  // Blocked signals.
};

// Runs the program in a child process. The child leads its own process group,
// has an empty standard input, and takes the default action on SIGPIPE and
// SIGXFSZ. The kernel kills the child when the calling thread ends. Errors:
// those of the system, naming the program.
absl::StatusOr<pid_t> StartProcess(const Program& program,
                                   const ProcessStart& start);

// Runs programs together as children of this process. Passes on their output
// line by line, and stops all of them if one fails.
//
// Stopping sends SIGTERM and SIGCONT, then SIGKILL to processes that still run
// after the grace period. If this process receives SIGHUP, SIGINT or SIGTERM,
// and does not ignore it, it sends that signal to all children instead, which
// starts the grace period too.
//
// No process is left over: each child leads its own process group, which ends
// with the child, and the kernel kills the children if this process ends for
// any reason. Only descendants in a process group that they made themselves are
// beyond reach.
//
// All methods are for one thread, in a process where no other thread has
// SIGCHLD or the signals above unblocked. One object at a time.
class ProcessGroup {
 public:
  enum class Stream : uint8_t { kOut, kErr };

  struct Options {
    absl::Duration grace = DefaultTime("grace");

    // Receives the output of process `index` in pieces as LineSplitter makes
    // them. All pieces of a stream come, in order, before the process counts as
    // ended.
    std::function<void(int index, Stream stream, absl::string_view piece)>
        on_output;

    // Called after each piece of output; returning false stops all processes.
    // Null: never called.
    std::function<bool()> may_go_on;

    // Queues that `on_output` writes to. Wait() writes them out whenever
    // possible, and reads no output while one of them is full. If bytes remain
    // unwritten when all processes were stopped and the grace period is over,
    // they are dropped.
    std::vector<OutputQueue*> queues;
  };

  struct Result {
    std::vector<int> wait_statuses;  // As from waitpid(2), by index.

    // First reason to stop the processes. Neither is set if all of them ended
    // by themselves with success.
    std::optional<int> first_failed;  // Index of the process.
    std::optional<int> signal;        // Received by this process.
  };

  // Starts the programs with an empty standard input. Errors: those of
  // StartProcess(), after which none runs; those of other system calls.
  static absl::StatusOr<std::unique_ptr<ProcessGroup>> Start(
      const std::vector<Program>& programs, Options options);

  // Kills the processes that still run.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Blocks until all processes have ended and their output is written.
  Result Wait();

  // By index. Ids of ended processes may be reused by other processes.
  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  struct Pipe {
    FileDescriptor fd;  // Closed once the other end is closed.
    LineSplitter lines;
  };
  struct Process {
    pid_t pid = 0;
    bool running = false;
    Pipe pipes[2];  // Indexed by Stream.
  };
  // A process that has ended, but was not waited for yet.
  struct Ended {
    int index;
    bool by_signal;
  };

  explicit ProcessGroup(Options options) : options_(std::move(options)) {}

  absl::Status TakeSignals();
  absl::Status StartOne(const Program& program);

  // Handles the next batch of events.
  void WaitForEvents();
  bool IsWriting() const;
  // Returns the number of bytes read.
  int ReadPipe(int index, Stream stream);
  void ClosePipe(int index, Stream stream);
  void ReadSignals();
  void EndGrace();
  void Reap();
  void End(int index);

  // Sends `signal` to all running processes and starts their grace period.
  void Stop(int signal);
  void SignalAll(int signal);

  const Options options_;
  std::optional<sigset_t> old_mask_;  // Of this thread, once changed.
  FileDescriptor signals_;            // From signalfd(2).
  FileDescriptor grace_;  // From timerfd_create(2); the first Stop() starts it.
  bool stopping_ = false;
  std::vector<Process> processes_;
  std::vector<pid_t> pids_;
  int num_running_ = 0;
  Result result_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_PROCESS_GROUP_H_
