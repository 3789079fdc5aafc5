#include "remote/grpc/connection/open_counts.h"

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status OpenCounts::Begin(int task) {
  MutexLock lock(&mu_);
  int& num_open = num_open_[task];
  if (num_open >= max_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        cluster_->Label(task), " has ", num_open, " ", things_, " open at ",
        cluster_->Label(cluster_->this_task), ", no more are taken"));
  }
  ++num_open;
  return absl::OkStatus();
}

void OpenCounts::End(int task) {
  MutexLock lock(&mu_);
  const auto found = num_open_.find(task);
  if (--found->second == 0) num_open_.erase(found);
}

}  // namespace tutti
