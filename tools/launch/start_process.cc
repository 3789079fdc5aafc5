#include "tools/launch/start_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {
namespace {

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

}  // namespace

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
  const ChildStart child = {argv.data(), envp.data(),        start,
                            null.get(),  child_report.get(), getpid()};
  const pid_t pid = fork();
  if (pid == 0) BecomeProgram(child);
  if (pid < 0) return CannotRun(program, errno);
  child_report = {};
  const int error = ReadReport(report.get());
  if (error == 0) return pid;
  waitpid(pid, nullptr, 0);
  return CannotRun(program, error);
}

}  // namespace tutti
