#include "tools/files/replaceable_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <system_error>

#include "absl/status/status.h"
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

}  // namespace

absl::StatusOr<fs::path> ReplaceablePath(const std::string& path) {
  ASSIGN_OR_RETURN(const auto whole, FollowLinks(path));
  RETURN_IF_ERROR(CheckCanBeReplaced(path, whole));
  return whole;
}

}  // namespace tutti
