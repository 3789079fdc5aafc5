#include "tools/files/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // Limit of Linux.

// Whether `path` leads to the open file of `descriptor`.
bool IsOpenAs(const fs::path& path, int descriptor) {
  struct stat file = {};
  struct stat open_file = {};
  return stat(path.c_str(), &file) == 0 && fstat(descriptor, &open_file) == 0 &&
         file.st_dev == open_file.st_dev && file.st_ino == open_file.st_ino;
}

// Whether the link is in /proc: "/dev/stdout" leads to such a link, which
// stands for an open file.
bool IsInProc(const fs::path& link) {
  std::error_code ignored;
  const fs::path folder =
      fs::weakly_canonical(fs::absolute(link).parent_path(), ignored);
  return folder.begin() != folder.end() &&
         std::next(folder.begin()) != folder.end() &&
         *std::next(folder.begin()) == "proc";
}

// Path at the end of a chain of links, whether it exists or not.
absl::StatusOr<fs::path> FollowLinks(const std::string& path) {
  fs::path last(path);
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(last, error))) return last;
    if (IsInProc(last)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path,
                       ": names what a process has open; wanted a file "
                       "of its own"));
    }
    const fs::path target = fs::read_symlink(last, error);
    if (error) break;
    last = last.parent_path() / target;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is a link that leads nowhere"));
}

// Errors: reasons not to replace `whole`, the target of `path`. Messages name
// `path`, as the user spelled it.
absl::Status CheckCanBeReplaced(const std::string& path,
                                const fs::path& whole) {
  std::error_code ignored;
  const fs::file_type type = fs::status(whole, ignored).type();
  if (!whole.has_filename() || type == fs::file_type::directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": names a directory, not a file to write"));
  }
  // If the status cannot be read, the directory's error says more.
  if (type != fs::file_type::not_found && type != fs::file_type::regular &&
      type != fs::file_type::none) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no regular file"));
  }
  for (int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if (!IsOpenAs(whole, descriptor)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is where standard ",
                     descriptor == STDOUT_FILENO ? "output" : "error",
                     " goes; wanted another file"));
  }
  return absl::OkStatus();
}

absl::Status Failed(const std::string& path, absl::string_view what,
                    int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

absl::Status Discarded(const std::string& path) {
  return absl::CancelledError(absl::StrCat(path, ": was given up"));
}

// The parts of `directory` that do not exist, outermost first.
std::vector<std::string> MissingDirectories(const fs::path& directory) {
  std::vector<std::string> missing;
  fs::path prefix;
  std::error_code ignored;
  for (const fs::path& part : directory) {
    prefix /= part;
    if (!part.empty() && !fs::exists(prefix, ignored)) {
      missing.push_back(prefix.string());
    }
  }
  return missing;
}

// Closes the descriptor of a file being written.
class OpenFile {
 public:
  // Errors name `path`, although the file has a temporary name.
  OpenFile(const std::string& path, int descriptor)
      : path_(path), descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  absl::Status Write(const void* data, size_t num_bytes) {
    const char* next = static_cast<const char*>(data);
    while (num_bytes > 0) {
      const ssize_t written = write(descriptor_, next, num_bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed(path_, "cannot be written", errno);
      next += written;
      num_bytes -= static_cast<size_t>(written);
    }
    return absl::OkStatus();
  }

  // Returns when all bytes are on disk: some file systems report a full disk
  // only here. EINVAL means that no disk stores the file.
  absl::Status Close() {
    const int synced = fsync(descriptor_);
    if (synced != 0 && errno != EINVAL) {
      return Failed(path_, "cannot be written", errno);
    }
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (close(descriptor) == 0) return absl::OkStatus();
    return Failed(path_, "cannot be written", errno);
  }

 private:
  const std::string path_;
  int descriptor_;
};

constexpr int kMaxAttempts = 100;

// Bytes of a file's name that its temporary name repeats: the length of
// temporary names is limited too.
constexpr size_t kMaxShownBytes = 100;

// A name in the file's directory that begins with a dot and that no other
// process uses.
std::string TemporaryPath(const fs::path& path, int attempt) {
  const std::string shown = path.filename().string().substr(0, kMaxShownBytes);
  const std::string name =
      absl::StrCat(".", shown, ".", getpid(), ".", attempt, ".tmp");
  return (path.parent_path() / name).string();
}

}  // namespace

absl::StatusOr<fs::path> ReplaceablePath(const std::string& path) {
  ASSIGN_OR_RETURN(const auto whole, FollowLinks(path));
  RETURN_IF_ERROR(CheckCanBeReplaced(path, whole));
  return whole;
}

absl::StatusOr<std::unique_ptr<OutputFiles>> OutputFiles::Create(
    const std::string& directory, Existing existing) {
  std::unique_ptr<OutputFiles> files(new OutputFiles(directory, existing));
  for (const std::string& missing : MissingDirectories(directory)) {
    std::error_code error;
    if (fs::is_symlink(fs::symlink_status(missing, error))) {
      return Failed(missing, "is a link that leads nowhere", ENOENT);
    }
    fs::create_directory(missing, error);
    if (error) return Failed(missing, "cannot be made", error.value());
    files->made_directories_.push_back(missing);
  }
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return Failed(directory, "is no directory to write to",
                  error ? error.value() : ENOTDIR);
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return Failed(directory, "cannot be written to", errno);
  }
  return files;
}

OutputFiles::~OutputFiles() { Discard(); }

void OutputFiles::Discard() {
  MutexLock lock(&mu_);
  if (state_ == State::kCommitted) return;
  if (state_ != State::kDiscarded) {
    state_ = State::kDiscarded;
    RestoreAll();
    for (const Staged& file : staged_) unlink(file.temporary.c_str());
  }
  for (size_t i = made_directories_.size(); i > 0; --i) {
    rmdir(made_directories_[i - 1].c_str());
  }
}

absl::StatusOr<int> OutputFiles::MakeTemporary(const std::string& path,
                                               const std::string& whole) {
  MutexLock lock(&mu_);
  if (state_ != State::kOpen) return Discarded(path);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string temporary = TemporaryPath(whole, attempt);
    const int descriptor =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) {
      const int error = errno;
      return Failed(
          whole == path ? path : absl::StrCat(path, ", a link to ", whole),
          "cannot be made", error);
    }
    staged_.push_back({.temporary = temporary, .path = path, .whole = whole});
    return descriptor;
  }
  return Failed(path, "finds no free temporary name", EEXIST);
}

absl::Status OutputFiles::Write(const std::string& name, absl::string_view head,
                                absl::Span<const std::byte> body) {
  const std::string path = (fs::path(directory_) / name).string();
  ASSIGN_OR_RETURN(const auto whole, ReplaceablePath(path));
  std::error_code error;
  if (fs::status(whole, error).type() == fs::file_type::none) {
    // Happens for a name that is too long, for example.
    return Failed(path, "cannot be made", error.value());
  }
  ASSIGN_OR_RETURN(const int descriptor, MakeTemporary(path, whole.string()));
  OpenFile file(path, descriptor);
  RETURN_IF_ERROR(file.Write(head.data(), head.size()));
  RETURN_IF_ERROR(file.Write(body.data(), body.size()));
  return file.Close();
}

absl::Status OutputFiles::ReplaceOne(Staged* file) const {
  std::error_code ignored;
  if (existing_ == Existing::kStay &&
      fs::exists(fs::symlink_status(file->whole, ignored))) {
    return Failed(file->path, "is there already", EEXIST);
  }
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    std::string kept = TemporaryPath(file->whole, attempt);
    int status = link(file->whole.c_str(), kept.c_str());
    if (status != 0 && errno == EEXIST) continue;
    if (status != 0 &&
        fs::is_regular_file(fs::symlink_status(file->whole, ignored))) {
      status =
          // Used by file systems without hard links.
          std::rename(file->whole.c_str(), kept.c_str());
    }
    if (status == 0) file->kept = std::move(kept);
    break;  // Otherwise there is no old file.
  }
  if (std::rename(file->temporary.c_str(), file->whole.c_str()) != 0) {
    return Failed(file->path, "cannot be replaced", errno);
  }
  file->in_place = true;
  return absl::OkStatus();
}

// Restores the last file first, so that files with the same target end with the
// oldest content.
void OutputFiles::RestoreAll() {
  for (auto file = staged_.rbegin(); file != staged_.rend(); ++file) {
    Restore(&*file);
  }
}

void OutputFiles::Restore(Staged* file) {
  if (file->in_place && file->kept.empty()) unlink(file->whole.c_str());
  if (!file->kept.empty()) {
    std::rename(file->kept.c_str(), file->whole.c_str());
    // rename() keeps both of two names of one file.
    unlink(file->kept.c_str());
  }
  file->in_place = false;
  file->kept.clear();
}

absl::Status OutputFiles::Replace() {
  MutexLock lock(&mu_);
  if (state_ != State::kOpen) return Discarded(directory_);
  for (Staged& file : staged_) {
    const absl::Status status = ReplaceOne(&file);
    if (status.ok()) continue;
    RestoreAll();
    return status;
  }
  state_ = State::kReplaced;
  return absl::OkStatus();
}

absl::Status OutputFiles::Keep() {
  MutexLock lock(&mu_);
  if (state_ != State::kReplaced) return Discarded(directory_);
  for (const Staged& file : staged_) {
    if (!file.kept.empty()) unlink(file.kept.c_str());
  }
  state_ = State::kCommitted;
  return absl::OkStatus();
}

absl::Status OutputFiles::Commit() {
  const absl::Status status = Replace();
  return status.ok() ? Keep() : status;
}

std::vector<std::string> OutputFiles::paths() const {
  MutexLock lock(&mu_);
  std::vector<std::string> paths;
  for (const Staged& file : staged_) paths.push_back(file.path);
  return paths;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(
    const std::string& path) {
  ASSIGN_OR_RETURN(const auto whole, ReplaceablePath(path));
  {
    ASSIGN_OR_RETURN(const auto trial, Open(whole));
    RETURN_IF_ERROR(trial->files_->Write(trial->name_, {}, {}));
  }
  return Open(whole);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(
    const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(
      auto files,
      OutputFiles::Create(path.has_parent_path() ? path.parent_path().string()
                                                 : "."));
  return std::unique_ptr<OutputFile>(
      new OutputFile(path.filename().string(), std::move(files)));
}

absl::Status OutputFile::Write(absl::string_view content) {
  const absl::Status written = files_->Write(name_, content, {});
  return written.ok() ? files_->Commit() : written;
}

absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content) {
  const auto file = OutputFile::Create(path);
  return file.ok() ? (*file)->Write(content) : file.status();
}

}  // namespace tutti
