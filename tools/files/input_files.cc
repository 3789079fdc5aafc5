#include "tools/files/input_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tools/files/natural_order.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

bool HasWildcards(const std::string& word) {
  return word.find_first_of("*?[~") != std::string::npos;
}

bool IsPattern(const std::string& word) {
  std::error_code ignored;
  return HasWildcards(word) && !fs::exists(word, ignored);
}

// Whether a part of a path contains a pattern.
bool IsForGlob(const std::string& part) {
  return HasWildcards(part) || part.find('\\') != std::string::npos;
}

// Checks that the directories above the file exist, up to the first pattern.
absl::Status CheckDirectories(const std::string& word, bool is_pattern) {
  fs::path directory;
  for (const fs::path& part : fs::path(word).parent_path()) {
    if (is_pattern && IsForGlob(part.string())) break;
    directory /= part;
    std::error_code error;
    const fs::file_type type = fs::status(directory, error).type();
    if (type == fs::file_type::directory) continue;
    if (type == fs::file_type::none) break;  // The type cannot be read.
    return absl::NotFoundError(absl::StrCat(
        "--input '", word, "': ",
        type == fs::file_type::not_found
            ? absl::StrCat("the directory ", directory.string(),
                           " does not exist")
            : absl::StrCat(directory.string(), " is no directory")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Matches(const std::string& pattern) {
  glob_t found = {};
  const auto freed = absl::MakeCleanup([&] { globfree(&found); });
  const int error = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT | GLOB_TILDE,
                         /*errfunc=*/nullptr, &found);
  if (error == GLOB_NOMATCH) {
    return absl::NotFoundError(
        absl::StrCat("--input '", pattern, "' matches no file"));
  }
  if (error != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "--input '", pattern, "' leads to a directory that cannot be read"));
  }
  std::vector<std::string> paths(found.gl_pathv,
                                 found.gl_pathv + found.gl_pathc);
  std::sort(paths.begin(), paths.end(), NaturalLess);
  return paths;
}

// The files that one word names, in natural order.
absl::StatusOr<std::vector<std::string>> Expand(const std::string& word) {
  const bool is_pattern = IsPattern(word);
  RETURN_IF_ERROR(CheckDirectories(word, is_pattern));
  return is_pattern ? Matches(word) : std::vector<std::string>{word};
}

}  // namespace

absl::StatusOr<ExpandedInputs> ExpandInputs(
    const std::vector<std::vector<std::string>>& inputs) {
  ExpandedInputs files;
  for (const std::vector<std::string>& words : inputs) {
    std::vector<std::string> paths;
    for (const std::string& word : words) {
      ASSIGN_OR_RETURN(const std::vector<std::string> expanded, Expand(word));
      paths.insert(paths.end(), expanded.begin(), expanded.end());
    }
    if (!std::is_sorted(paths.begin(), paths.end(), NaturalLess)) {
      files.reordered = true;
      std::sort(paths.begin(), paths.end(), NaturalLess);
    }
    files.paths.insert(files.paths.end(), paths.begin(), paths.end());
  }
  return files;
}

}  // namespace tutti
