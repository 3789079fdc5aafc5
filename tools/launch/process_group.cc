#include "tools/launch/process_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// PIPE_BUF: a write of this size never blocks on a pipe that poll(2) calls
// writable.
constexpr size_t kWriteBytes = 4096;

// Environment of this process without the variables that `added` sets, followed
// by `added`.
std::vector<std::string> MergedEnvironment(
    const std::vector<std::string>& added) {
  std::vector<std::string> merged = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view ours = *entry;
    const absl::string_view name = ours.substr(0, ours.find('=') + 1);
    const bool replaced = absl::c_any_of(added, [&](const std::string& one) {
      return absl::StartsWith(one, name);
    });
    if (!replaced) merged.emplace_back(ours);
  }
  return merged;
}

// Array for execve(2). Valid while `words` is.
std::vector<char*> Pointers(std::vector<std::string>* words) {
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, prepared before fork().
struct ChildStart {
  char* const* words;
  char* const* environment;
  ProcessStart files;
  absl::Span<const int> descriptors;
  int null;  // Opened on /dev/null.
  int report;
  pid_t parent;
};

// Runs in the child. Does only what is allowed between fork and exec: takes no
// memory and no locks.
[[noreturn]] void BecomeProgram(const ChildStart& start) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent ended before prctl().
  if (getppid() != start.parent) _exit(127);
  // exec keeps ignored signals ignored, and this tool ignores these two.
  for (int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
  for (int descriptor : start.descriptors) fcntl(descriptor, F_SETFD, 0);
  if (dup2(start.null, STDIN_FILENO) >= 0 &&
      dup2(start.files.out, STDOUT_FILENO) >= 0 &&
      dup2(start.files.err, STDERR_FILENO) >= 0 &&
      sigprocmask(SIG_SETMASK, &start.files.mask, nullptr) == 0) {
    execve(start.words[0], start.words, start.environment);
  }
  const int error = errno;
  while (write(start.report, &error, sizeof(error)) < 0 && errno == EINTR) {
  }
  _exit(127);
}

// Error number that the child reported; 0 after a successful exec.
int ReadReport(int report) {
  int error = 0;
  ssize_t size = 0;
  do {
    size = read(report, &error, sizeof(error));
  } while (size < 0 && errno == EINTR);
  return size == sizeof(error) ? error : 0;
}

absl::Status CannotRun(const Program& program, int error) {
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot run ", program.words.front()));
}

constexpr std::array kStreams = {ProcessGroup::Stream::kOut,
                                 ProcessGroup::Stream::kErr};

bool IsIgnored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

// Bytes read from a pipe at once: the default capacity of a pipe.
constexpr size_t kReadBytes = size_t{64} << 10;

// Called before each write: two descriptors may share a pipe, and the other may
// have filled it.
bool IsWritable(int descriptor) {
  pollfd polled = {descriptor, POLLOUT, 0};
  return poll(&polled, 1, /*timeout=*/0) > 0;
}

}  // namespace

void LineSplitter::Add(absl::string_view bytes, Take take) {
  while (!bytes.empty()) {
    const size_t room = kMaxPieceBytes - rest_.size();
    const size_t newline = bytes.find('\n');
    const bool ends = newline < std::min(room, bytes.size());
    const size_t size = ends ? newline + 1 : std::min(room, bytes.size());
    const absl::string_view piece = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (rest_.empty() && (ends || size == kMaxPieceBytes)) {
      take(piece);
      continue;
    }
    rest_.append(piece.data(), piece.size());
    if (ends || rest_.size() == kMaxPieceBytes) Finish(take);
  }
}

void LineSplitter::Finish(Take take) {
  if (rest_.empty()) return;
  take(rest_);
  rest_.clear();
}

void OutputQueue::WriteSome() {
  const size_t size = std::min(text_.size() - next_, kWriteBytes);
  if (size == 0) return;
  const ssize_t written = write(descriptor_, text_.data() + next_, size);
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (written < 0) return Drop();
  next_ += static_cast<size_t>(written);
  if (next_ < kFullBytes && !is_empty()) return;
  text_.erase(0, next_);
  next_ = 0;
}

void OutputQueue::WriteAll() {
  while (!is_empty()) WriteSome();
}

void OutputQueue::Drop() {
  failed_ = true;
  text_.clear();
  next_ = 0;
}

std::streamsize OutputQueue::xsputn(const char* bytes, std::streamsize size) {
  if (failed_) return 0;
  text_.append(bytes, static_cast<size_t>(size));
  return size;
}

OutputQueue::int_type OutputQueue::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return 0;
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

absl::StatusOr<pid_t> StartProcess(const Program& program,
                                   const ProcessStart& start) {
  if (program.words.empty()) {
    return absl::InvalidArgumentError("wanted a program to run, found none");
  }
  std::vector<std::string> words = program.words;
  std::vector<std::string> environment = MergedEnvironment(program.environment);
  const std::vector<char*> argv = Pointers(&words);
  const std::vector<char*> envp = Pointers(&environment);
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (!null.is_set() || pipe2(ends, O_CLOEXEC) != 0) {
    return CannotRun(program, errno);
  }
  const FileDescriptor report(ends[0]);
  FileDescriptor child_report(ends[1]);
  const ChildStart child = {.words = argv.data(),
                            .environment = envp.data(),
                            .files = start,
                            .descriptors = program.descriptors,
                            .null = null.get(),
                            .report = child_report.get(),
                            .parent = getpid()};
  const pid_t pid = fork();
  if (pid == 0) BecomeProgram(child);
  if (pid < 0) return CannotRun(program, errno);
  child_report = {};
  const int error = ReadReport(report.get());
  if (error == 0) return pid;
  waitpid(pid, nullptr, 0);
  return CannotRun(program, error);
}

absl::StatusOr<std::unique_ptr<ProcessGroup>> ProcessGroup::Start(
    const std::vector<Program>& programs, Options options) {
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(std::move(options)));
  absl::Status status = group->TakeSignals();
  for (const Program& program : programs) {
    if (status.ok()) status = group->StartOne(program);
  }
  if (!status.ok()) return status;
  return group;
}

ProcessGroup::~ProcessGroup() {
  SignalAll(SIGKILL);
  for (const Process& process : processes_) {
    if (process.running) waitpid(process.pid, nullptr, 0);
  }
  if (old_mask_.has_value()) {
    pthread_sigmask(SIG_SETMASK, &*old_mask_, nullptr);
  }
}

absl::Status ProcessGroup::TakeSignals() {
  // Processes that ignore SIGCHLD cannot wait for children.
  if (IsIgnored(SIGCHLD)) signal(SIGCHLD, SIG_DFL);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (int signal : {SIGHUP, SIGINT, SIGTERM}) {
    if (!IsIgnored(signal)) sigaddset(&taken, signal);
  }
  sigset_t old_mask;
  const int error = pthread_sigmask(SIG_BLOCK, &taken, &old_mask);
  if (error != 0) return absl::ErrnoToStatus(error, "cannot block signals");
  old_mask_ = old_mask;
  signals_ = FileDescriptor(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  grace_ = FileDescriptor(
      timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (signals_.is_set() && grace_.is_set()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot wait for signals");
}

absl::Status ProcessGroup::StartOne(const Program& program) {
  Process process;
  FileDescriptor child_ends[2];
  for (size_t stream = 0; stream < 2; ++stream) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return absl::ErrnoToStatus(errno, "cannot make a pipe");
    }
    process.pipes[stream].fd = FileDescriptor(ends[0]);
    child_ends[stream] = FileDescriptor(ends[1]);
    // The child's end stays blocking, as most programs expect.
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  ASSIGN_OR_RETURN(const auto pid,
                   StartProcess(program, {child_ends[0].get(),
                                          child_ends[1].get(), *old_mask_}));
  process.pid = pid;
  process.running = true;
  processes_.push_back(std::move(process));
  pids_.push_back(pid);
  result_.wait_statuses.push_back(0);
  ++num_running_;
  return absl::OkStatus();
}

ProcessGroup::Result ProcessGroup::Wait() {
  while (num_running_ > 0 || IsWriting()) WaitForEvents();
  return result_;
}

bool ProcessGroup::IsWriting() const {
  return absl::c_any_of(options_.queues, [](const OutputQueue* queue) {
    return !queue->is_empty();
  });
}

void ProcessGroup::WaitForEvents() {
  std::vector<pollfd> polled;
  std::vector<std::function<void()>> reactions;
  const auto watch = [&](int fd, int16_t events, std::function<void()> react) {
    polled.push_back({fd, events, 0});
    reactions.push_back(std::move(react));
  };
  bool is_full = false;
  for (OutputQueue* queue : options_.queues) {
    is_full = is_full || queue->is_full();
    if (queue->is_empty()) continue;
    watch(queue->descriptor(), POLLOUT, [queue] {
      if (IsWritable(queue->descriptor())) queue->WriteSome();
    });
  }
  for (size_t i = 0; i < processes_.size() && !is_full; ++i) {
    for (Stream stream : kStreams) {
      const FileDescriptor& fd =
          processes_[i].pipes[static_cast<int>(stream)].fd;
      if (!fd.is_set()) continue;
      watch(fd.get(), POLLIN,
            [this, i, stream] { ReadPipe(static_cast<int>(i), stream); });
    }
  }
  watch(signals_.get(), POLLIN, [this] { ReadSignals(); });
  watch(grace_.get(), POLLIN, [this] { EndGrace(); });
  if (poll(polled.data(), polled.size(), /*timeout=*/-1) < 0) return;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) reactions[i]();
  }
  if (!stopping_ && options_.may_go_on && !options_.may_go_on()) Stop(SIGTERM);
}

void ProcessGroup::EndGrace() {
  uint64_t expirations = 0;
  if (read(grace_.get(), &expirations, sizeof(expirations)) <= 0) return;
  SignalAll(SIGKILL);
  for (OutputQueue* queue : options_.queues) queue->Drop();
}

int ProcessGroup::ReadPipe(int index, Stream stream) {
  Pipe& pipe = processes_[index].pipes[static_cast<int>(stream)];
  std::array<char, kReadBytes> buffer;
  const ssize_t size = read(pipe.fd.get(), buffer.data(), buffer.size());
  if (size < 0) return 0;  // Nothing to read after all.
  if (size == 0) {
    ClosePipe(index, stream);
    return 0;
  }
  pipe.lines.Add({buffer.data(), static_cast<size_t>(size)},
                 [&](absl::string_view piece) {
                   options_.on_output(index, stream, piece);
                 });
  return static_cast<int>(size);
}

void ProcessGroup::ClosePipe(int index, Stream stream) {
  Pipe& pipe = processes_[index].pipes[static_cast<int>(stream)];
  pipe.lines.Finish([&](absl::string_view piece) {
    options_.on_output(index, stream, piece);
  });
  pipe.fd = {};
}

void ProcessGroup::ReadSignals() {
  signalfd_siginfo info = {};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      Reap();
      continue;
    }
    if (!stopping_) result_.signal = signal;
    Stop(signal);
  }
}

void ProcessGroup::Reap() {
  std::vector<Ended> ended;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].running) continue;
    siginfo_t info = {};
    waitid(P_PID, processes_[i].pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == 0) continue;
    ended.push_back({static_cast<int>(i), info.si_code != CLD_EXITED});
  }
  // Killed processes come first: a kill more likely causes another failure than
  // the reverse.
  std::stable_partition(ended.begin(), ended.end(),
                        [](const Ended& one) { return one.by_signal; });
  for (const Ended& one : ended) End(one.index);
}

void ProcessGroup::End(int index) {
  Process& process = processes_[index];
  // The process group's number stays reserved until the leader is waited for.
  kill(-process.pid, SIGKILL);
  for (Stream stream : kStreams) {
    const FileDescriptor& fd = process.pipes[static_cast<int>(stream)].fd;
    // Reads only the bytes that are there now: processes beyond reach may still
    // write.
    int left_bytes = 0;
    if (fd.is_set()) ioctl(fd.get(), FIONREAD, &left_bytes);
    while (fd.is_set() && left_bytes > 0) {
      const int read_bytes = ReadPipe(index, stream);
      if (read_bytes == 0) break;
      left_bytes -= read_bytes;
    }
    if (fd.is_set()) ClosePipe(index, stream);
  }
  int& wait_status = result_.wait_statuses[index];
  waitpid(process.pid, &wait_status, 0);
  process.running = false;
  --num_running_;
  if (wait_status == 0 || stopping_) return;
  result_.first_failed = index;
  Stop(SIGTERM);
}

void ProcessGroup::Stop(int signal) {
  SignalAll(signal);
  SignalAll(SIGCONT);  // Stopped processes take no other signal.
  if (stopping_) return;
  stopping_ = true;
  if (options_.grace == absl::InfiniteDuration()) return;
  // A timer set to zero would never expire.
  const absl::Duration grace = std::max(options_.grace, absl::Nanoseconds(1));
  itimerspec when = {};
  when.it_value = absl::ToTimespec(grace);
  timerfd_settime(grace_.get(), /*flags=*/0, &when, nullptr);
}

void ProcessGroup::SignalAll(int signal) {
  for (const Process& process : processes_) {
    if (process.running) kill(-process.pid, signal);
  }
}

}  // namespace tutti
