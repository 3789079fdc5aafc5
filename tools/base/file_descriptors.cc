#include "tools/base/file_descriptors.h"

#include <sys/resource.h>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status AllowFileDescriptors(int num_tasks) {
  // Least that an all-reduce among 2 to 16 tasks had open.
  constexpr rlim_t kOwn = 16, kOfEachOther = 6;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed =
      kOwn + kOfEachOther * static_cast<rlim_t>(num_tasks - 1);
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("each of ", num_tasks, " tasks needs about ", needed,
                   " file descriptors, and this process may have ",
                   limit.rlim_cur, "; raise the hard limit (ulimit -Hn)"));
}

}  // namespace tutti
