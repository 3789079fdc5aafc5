#include "tools/commands/certs_command.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/on_interrupt.h"
#include "tools/launch/process_group.h"

namespace tutti {
namespace {

constexpr char kCertsHelp[] =
    R"(Makes a certificate authority and, signed by it, a certificate for each task,
with the program openssl:
  ca.pem, ca.key           the authority; who has the key can pose as any task
  task-0.pem, task-0.key   of task 0; and so on

A task's certificate names it, task-0, and where it may be: localhost,
127.0.0.1, ::1 and all --hosts. The directory must be new or empty, and only
its owner can read it.

Each task needs ca.pem and its own two files, and no other: on several
machines, copy those alone. The keys are not encrypted. For production, use the
authority that you have.

Examples:
  tutti certs --tasks 4 --out certs
  tutti certs --tasks 2 --hosts host1,host2,10.0.0.7 --out host-certs)";

constexpr int kMaxTasks = 65536;

constexpr char kAuthority[] = R"([req]
distinguished_name = name
x509_extensions = authority
prompt = no
[name]
CN = Tutti test authority
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
)";

constexpr char kTask[] = R"([req]
distinguished_name = name
prompt = no
[name]
CN = task-$TASK
[task]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:task-$TASK, DNS:localhost, IP:127.0.0.1, IP:::1$HOSTS
)";

bool IsIpAddress(const std::string& host) {
  in6_addr address;  // Large enough for IPv4 too.
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsHostName(absl::string_view host) {
  return !host.empty() && absl::c_all_of(host, [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

// Text such as ", DNS:host1, IP:10.0.0.7".
absl::StatusOr<std::string> AlternativeNames(
    const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    const bool is_address = IsIpAddress(host);
    if (!is_address && !IsHostName(host)) {
      return UsageError(absl::StrCat("--hosts: \"", host,
                                     "\" is neither the name of a host nor an "
                                     "address of IPv4 or IPv6"));
    }
    absl::StrAppend(&names, is_address ? ", IP:" : ", DNS:", host);
  }
  return names;
}

// Path of the program that a shell would run.
absl::StatusOr<std::string> FindOpenssl() {
  const std::string folders = EnvironmentVariable("PATH").value_or("");
  for (absl::string_view folder :
       absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/openssl");
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return absl::NotFoundError(
      "wanted the program openssl, found none in PATH: install it (on Debian, "
      "the package openssl)");
}

absl::Status SystemError(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  return out ? absl::OkStatus() : SystemError(path, "cannot be written");
}

// Content of a file on one line.
std::string ReadText(const std::string& path) {
  const std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(text.str()),
                             {{"\n", "; "}});
}

absl::Status NotNewOrEmpty(const std::string& folder) {
  return absl::AlreadyExistsError(
      absl::StrCat(folder, ": wanted a directory that is new or empty"));
}

bool IsThere(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder, ignored);
}

// Makes the files in a temporary directory. At the end the directory gets its
// final name; if an empty directory already has that name (it may be a link or
// a mount point), the files move there instead. Remove() may be called on any
// thread, all other methods are for one thread.
class CertMaker {
 public:
  // `folder` is the final name of the directory.
  CertMaker(std::string openssl, std::string folder, int days)
      : openssl_(std::move(openssl)),
        name_(std::move(folder)),
        days_(absl::StrCat(days)),
        fills_(IsThere(name_)),
        folder_(name_ + (fills_ ? "/.certs.XXXXXX" : ".XXXXXX")) {}
  ~CertMaker() { Remove(); }
  CertMaker(const CertMaker&) = delete;
  CertMaker& operator=(const CertMaker&) = delete;

  absl::Status MakeFolder() {
    MutexLock lock(&mu_);
    if (removed_) return Removed();
    made_ = mkdtemp(folder_.data()) != nullptr;
    return made_ ? absl::OkStatus() : SystemError(name_, "cannot be made");
  }

  // Call it last, once all files exist.
  absl::Status TakeName() {
    MutexLock lock(&mu_);
    if (removed_) return Removed();
    const absl::Status status = fills_ ? Fill() : Rename(folder_, name_);
    if (status.ok()) made_ = false;
    return status;
  }

  // Stops openssl and removes everything that TakeName() has not moved. Later
  // calls make nothing.
  void Remove() {
    MutexLock lock(&mu_);
    removed_ = true;
    if (openssl_pid_ > 0) kill(openssl_pid_, SIGKILL);
    while (openssl_pid_ > 0) openssl_ended_.Wait(&mu_);
    std::error_code error;
    if (made_) std::filesystem::remove_all(folder_, error);
    made_ = false;
  }

  absl::Status MakeAuthority() {
    RETURN_IF_ERROR(WriteSettings(kAuthority));
    absl::Status status =
        Run({"req", "-x509", "-days", days_, "-out", File("ca.pem")},
            File("ca.key"));
    return status.ok() ? CheckWhole({"ca.pem", "ca.key"}) : status;
  }

  absl::Status MakeTask(int task, const std::string& alternative_names) {
    const std::string name = absl::StrCat("task-", task);
    absl::Status status = WriteSettings(absl::StrReplaceAll(
        kTask, {{"$TASK", absl::StrCat(task)}, {"$HOSTS", alternative_names}}));
    if (!status.ok()) return status;
    status = Run({"req", "-new", "-out", File("request")}, File(name + ".key"));
    if (!status.ok()) return status;
    status =
        Run({"x509", "-req", "-in", File("request"), "-CA", File("ca.pem"),
             "-CAkey", File("ca.key"), "-set_serial", absl::StrCat(task + 1),
             "-days", days_, "-extfile", File("openssl.cnf"), "-extensions",
             "task", "-out", File(name + ".pem")});
    return status.ok() ? CheckWhole({name + ".pem", name + ".key"}) : status;
  }

  absl::Status RemoveHelpers() {
    for (const char* name : {"openssl.cnf", "openssl.log", "request"}) {
      const std::string path = File(name);
      if (unlink(path.c_str()) == 0) continue;
      return SystemError(path, "cannot be removed");
    }
    return absl::OkStatus();
  }

 private:
  static std::string File(const std::string& folder, const std::string& name) {
    return absl::StrCat(folder, "/", name);
  }
  std::string File(const std::string& name) const {
    return File(folder_, name);
  }

  static std::vector<std::string> NamesIn(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder, ignored)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  absl::Status Removed() const {
    return absl::CancelledError(absl::StrCat(name_, ": was given up"));
  }

  static absl::Status Rename(const std::string& from, const std::string& to) {
    if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return SystemError(to, "cannot be made");
  }

  // Moves all files, or none, to the existing directory.
  absl::Status Fill() const {
    for (const std::string& name : NamesIn(name_)) {
      if (File(name_, name) != folder_) return NotNewOrEmpty(name_);
    }
    if (chmod(name_.c_str(), 0700) != 0) {
      return SystemError(name_, "cannot be made its owner's alone");
    }
    std::vector<std::string> moved;
    for (const std::string& name : NamesIn(folder_)) {
      const std::string to = File(name_, name);
      const absl::Status status = Rename(File(name), to);
      if (!status.ok()) {
        for (const std::string& one : moved) unlink(one.c_str());
        return status;
      }
      moved.push_back(to);
    }
    rmdir(folder_.c_str());
    return absl::OkStatus();
  }

  // openssl reports no error if the disk is full.
  absl::Status CheckWhole(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      std::ifstream file(File(name));
      const std::string text(std::istreambuf_iterator<char>(file), {});
      if (absl::EndsWith(text, "-----\n")) continue;
      return absl::DataLossError(
          absl::StrCat(File(name_, name), ": openssl has written ", text.size(),
                       " bytes, and not the end; the disk may be full"));
    }
    return absl::OkStatus();
  }

  absl::Status WriteSettings(const std::string& text) {
    MutexLock lock(&mu_);
    if (removed_) return Removed();
    return WriteText(File("openssl.cnf"), text);
  }

  // Runs openssl, which also makes a key.
  absl::Status Run(std::vector<std::string> words, const std::string& key) {
    const std::vector<std::string> making_key = {
        "-config", File("openssl.cnf"), "-newkey",
        "ec",      "-pkeyopt",          "ec_paramgen_curve:prime256v1",
        "-nodes",  "-keyout",           key};
    words.insert(words.end(), making_key.begin(), making_key.end());
    return Run(std::move(words));
  }

  absl::Status Run(std::vector<std::string> words) {
    const std::string log = File("openssl.log");
    const std::string what = absl::StrCat("openssl ", words.front());
    words.insert(words.begin(), openssl_);
    ASSIGN_OR_RETURN(const auto pid, Start({.words = std::move(words)}, log));
    if (WaitFor(pid) == 0) return absl::OkStatus();
    return absl::UnknownError(absl::StrCat(what, " failed: ", ReadText(log)));
  }

  absl::StatusOr<pid_t> Start(const Program& program, const std::string& log) {
    MutexLock lock(&mu_);
    if (removed_) return Removed();
    const FileDescriptor to(
        open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!to.is_set()) return SystemError(log, "cannot be written");
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    const auto pid = StartProcess(program, {to.get(), to.get(), mask});
    if (pid.ok()) openssl_pid_ = *pid;
    return pid;
  }

  // Returns the wait status.
  int WaitFor(pid_t pid) {
    siginfo_t info = {};
    while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) <
               0 &&
           errno == EINTR) {
    }
    MutexLock lock(&mu_);  // waitpid() releases the pid.
    int wait_status = 0;
    waitpid(pid, &wait_status, 0);
    openssl_pid_ = 0;
    openssl_ended_.SignalAll();
    return wait_status;
  }

  const std::string openssl_;
  const std::string name_;
  const std::string days_;
  const bool fills_;    // The directory exists already.
  std::string folder_;  // Fixed once MakeFolder() has returned.

  Mutex mu_;
  CondVar openssl_ended_;
  pid_t openssl_pid_ ABSL_GUARDED_BY(mu_) = 0;  // 0: not running.
  bool made_ ABSL_GUARDED_BY(mu_) = false;      // To be removed.
  bool removed_ ABSL_GUARDED_BY(mu_) = false;
};

absl::Status MakeFiles(const CertsOptions& options,
                       const std::string& alternative_names, CertMaker* maker) {
  absl::Status status = maker->MakeFolder();
  if (status.ok()) status = maker->MakeAuthority();
  for (int task = 0; task < options.tasks && status.ok(); ++task) {
    status = maker->MakeTask(task, alternative_names);
  }
  if (status.ok()) status = maker->RemoveHelpers();
  return status.ok() ? maker->TakeName() : status;
}

absl::Status CheckIsNewOrEmpty(const std::filesystem::path& folder) {
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (!std::filesystem::exists(status)) return absl::OkStatus();
  if (std::filesystem::is_directory(status) &&
      std::filesystem::is_empty(folder, error)) {
    return absl::OkStatus();
  }
  return NotNewOrEmpty(folder.string());
}

// Path without trailing slashes.
std::filesystem::path FolderOf(const std::string& out) {
  const std::filesystem::path path =
      std::filesystem::path(out).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

absl::Status MakeCerts(const CertsOptions& options, const Console& console) {
  ASSIGN_OR_RETURN(const auto alternative_names,
                   AlternativeNames(options.hosts));
  const std::filesystem::path folder = FolderOf(options.out);
  RETURN_IF_ERROR(CheckIsNewOrEmpty(folder));
  ASSIGN_OR_RETURN(auto openssl, FindOpenssl());
  CertMaker maker(std::move(openssl), folder.string(), options.days);
  const OnInterrupt on_interrupt([&maker] { maker.Remove(); });
  RETURN_IF_ERROR(MakeFiles(options, alternative_names, &maker));
  console.out << "wrote " << folder.string() << "/ca.pem, and task-0.pem to "
              << "task-" << options.tasks - 1 << ".pem with their keys\n";
  return absl::OkStatus();
}

Command AddCertsCommand(CLI::App* app) {
  auto options = std::make_shared<CertsOptions>();
  CLI::App* certs = app->add_subcommand(
      "certs", "Makes certificates to try TLS between tasks with.");
  certs->footer(kCertsHelp);
  certs->add_option("--tasks", options->tasks, "how many")
      ->required()
      ->transform(WholeNumber(1, kMaxTasks))
      ->option_text("N");
  certs->add_option("--out", options->out, "directory for the files")
      ->required()
      ->check(NotEmpty())
      ->option_text("DIR");
  certs
      ->add_option("--hosts", options->hosts,
                   "names and addresses where the tasks may be")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(NotEmpty())
      ->option_text("HOST,...");
  certs
      ->add_option("--days", options->days,
                   "for which they are valid [default: 365]")
      ->transform(WholeNumber(1, 36500))
      ->option_text("N");
  return {.app = certs, .run = [options](const Console& console) {
            return MakeCerts(*options, console);
          }};
}

}  // namespace tutti
