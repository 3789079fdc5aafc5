#include "tools/input_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/natural_order.h"

namespace tutti {
namespace {

bool IsPattern(const std::string& word) {
  std::error_code ignored;
  return word.find_first_of("*?[~") != std::string::npos &&
         !std::filesystem::exists(word, ignored);
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
  return std::vector<std::string>(found.gl_pathv,
                                  found.gl_pathv + found.gl_pathc);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandInputs(
    const std::vector<std::vector<std::string>>& inputs) {
  std::vector<std::string> files;
  for (const std::vector<std::string>& words : inputs) {
    const auto first = static_cast<std::ptrdiff_t>(files.size());
    for (const std::string& word : words) {
      if (!IsPattern(word)) {
        files.push_back(word);
        continue;
      }
      const absl::StatusOr<std::vector<std::string>> matches = Matches(word);
      if (!matches.ok()) return matches.status();
      files.insert(files.end(), matches->begin(), matches->end());
    }
    std::sort(files.begin() + first, files.end(), NaturalLess);
  }
  return files;
}

}  // namespace tutti
