#include "tools/base/available_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::vector<std::string> LinesOf(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Parses a line such as "MemAvailable:   16250404 kB".
int64_t KernelsEstimate(const fs::path& meminfo) {
  for (const std::string& line : LinesOf(meminfo)) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kibibytes = 0;
    if (words.size() == 3 && words[0] == "MemAvailable:" &&
        absl::SimpleAtoi(words[1], &kibibytes)) {
      return kibibytes * 1024;
    }
  }
  return kUnlimited;
}

// The number in the file. A file that is missing or says "max" sets no limit.
int64_t LimitIn(const fs::path& file) {
  const std::vector<std::string> lines = LinesOf(file);
  int64_t bytes = 0;
  return !lines.empty() && absl::SimpleAtoi(lines[0], &bytes) ? bytes
                                                              : kUnlimited;
}

// Lowest limit of the group and of its parent groups, up to `mount`. In a
// container the group's own path may be missing; then the mount is the group.
int64_t LimitOfGroup(const fs::path& mount, const std::string& group,
                     const std::string& file) {
  int64_t least = LimitIn(mount / file);
  fs::path path = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    path /= part;
    least = std::min(least, LimitIn(path / file));
  }
  return least;
}

// Limit of the group that a line of /proc/self/cgroup names: "0::/user" is
// version 2, "4:memory:/user" is version 1.
int64_t LimitOfLine(const fs::path& mounts, const std::string& line) {
  const std::vector<std::string> fields =
      absl::StrSplit(line, absl::MaxSplits(':', 2));
  if (fields.size() != 3) return kUnlimited;
  if (fields[1].empty()) return LimitOfGroup(mounts, fields[2], "memory.max");
  const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
  if (std::count(controllers.begin(), controllers.end(), "memory") == 0) {
    return kUnlimited;
  }
  return LimitOfGroup(mounts / "memory", fields[2], "memory.limit_in_bytes");
}

}  // namespace

int64_t AvailableMemory(const std::string& root) {
  const fs::path top = root;
  int64_t least = KernelsEstimate(top / "proc/meminfo");
  for (const std::string& line : LinesOf(top / "proc/self/cgroup")) {
    least = std::min(least, LimitOfLine(top / "sys/fs/cgroup", line));
  }
  return least;
}

}  // namespace tutti
