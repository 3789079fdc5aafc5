#include "tools/files/rank_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status_macros.h"
#include "tools/base/exit_status.h"
#include "tools/files/output_files.h"

namespace tutti {
namespace {

// Takes the leading digits off `text`, or its first byte, and returns them:
// digits without leading zeros.
absl::string_view TakeNext(bool digits, absl::string_view* text) {
  size_t end = digits ? 0 : 1;
  while (digits && end < text->size() && absl::ascii_isdigit((*text)[end])) {
    ++end;
  }
  absl::string_view next = text->substr(0, end);
  text->remove_prefix(end);
  if (digits) {
    next.remove_prefix(std::min(next.find_first_not_of('0'), next.size()));
  }
  return next;
}

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

constexpr absl::string_view kPrefix = "rank";
constexpr absl::string_view kSuffix = ".npy";

// Identity of a file: two paths lead to one file if their ids are equal.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> IdOf(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId(found.st_dev, found.st_ino);
}

bool IsRankFileName(absl::string_view name) {
  return absl::ConsumePrefix(&name, kPrefix) &&
         absl::ConsumeSuffix(&name, kSuffix) && !name.empty() &&
         absl::c_all_of(name, absl::ascii_isdigit);
}

}  // namespace

bool NaturalLess(absl::string_view a, absl::string_view b) {
  absl::string_view rest_a = a;
  absl::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const bool digits =
        absl::ascii_isdigit(rest_a[0]) && absl::ascii_isdigit(rest_b[0]);
    const absl::string_view next_a = TakeNext(digits, &rest_a);
    const absl::string_view next_b = TakeNext(digits, &rest_b);
    if (next_a.size() != next_b.size()) return next_a.size() < next_b.size();
    if (next_a != next_b) return next_a < next_b;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;
}

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

std::string RankFileName(int rank) {
  return absl::StrCat(kPrefix, rank, kSuffix);
}

absl::Status CheckReplacesNoInput(const std::string& directory,
                                  const std::vector<std::string>& names,
                                  const std::vector<std::string>& inputs) {
  std::map<FileId, std::string> input_of_id;
  for (const std::string& input : inputs) {
    const std::optional<FileId> id = IdOf(input);
    if (id.has_value()) input_of_id.emplace(*id, input);
  }
  for (const std::string& name : names) {
    const std::optional<FileId> id = IdOf(fs::path(directory) / name);
    if (!id.has_value()) continue;
    const auto input = input_of_id.find(*id);
    if (input == input_of_id.end()) continue;
    return UsageError(absl::StrCat("--output ", directory,
                                   " would replace the input ", input->second,
                                   "; wanted another directory"));
  }
  return absl::OkStatus();
}

absl::Status CheckFilesApart(const std::string& directory,
                             const std::vector<std::string>& names) {
  std::map<fs::path, std::string> name_of_file;
  for (const std::string& name : names) {
    const auto whole = ReplaceablePath(fs::path(directory) / name);
    if (!whole.ok()) continue;  // Writing the file reports the error.
    std::error_code error;
    const fs::path file = fs::weakly_canonical(*whole, error);
    if (error) continue;
    const auto [other, is_first] = name_of_file.emplace(file, name);
    if (is_first) continue;
    return UsageError(absl::StrCat("--output ", directory, ": ", other->second,
                                   " and ", name, " lead to one file, ",
                                   other->first.string()));
  }
  return absl::OkStatus();
}

std::vector<std::string> OtherRankFiles(const std::string& directory,
                                        const std::vector<std::string>& names) {
  const std::set<std::string> known(names.begin(), names.end());
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (IsRankFileName(name) && !known.contains(name)) others.push_back(name);
  }
  std::sort(others.begin(), others.end(), NaturalLess);
  return others;
}

}  // namespace tutti
