#include "remote/grpc/send_context.h"

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status SendContext::BeginRequest(int task) {
  const int max_open = options_->bounds.max_open_transfers;
  MutexLock lock(&mu_);
  int& num_open = num_open_[task];
  if (num_open >= max_open) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_->cluster.Label(task), " has ", num_open,
                     " requests for bytes open at ",
                     options_->cluster.Label(options_->cluster.this_task),
                     ", no more are taken"));
  }
  ++num_open;
  return absl::OkStatus();
}

void SendContext::EndRequest(int task) {
  MutexLock lock(&mu_);
  const auto it = num_open_.find(task);
  if (--it->second == 0) num_open_.erase(it);
}

void SendContext::AddStream(const std::shared_ptr<SendStream>& stream) {
  MutexLock lock(&mu_);
  streams_.emplace(stream.get(), stream);
}

void SendContext::RemoveStream(const SendStream* stream) {
  std::shared_ptr<SendStream> removed;
  MutexLock lock(&mu_);
  const auto found = streams_.find(stream);
  removed = std::move(found->second);  // It goes when the lock has.
  streams_.erase(found);
}

std::vector<std::shared_ptr<SendStream>> SendContext::streams() {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<SendStream>> streams;
  for (const auto& [key, stream] : streams_) streams.push_back(stream);
  return streams;
}

}  // namespace tutti
