#include "tools/files/rank_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/base/exit_status.h"
#include "tools/files/natural_order.h"
#include "tools/files/replaceable_path.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

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
