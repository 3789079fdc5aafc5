#include "remote/grpc/transfers/send_context.h"

namespace tutti {

void SendContext::AddStream(const std::shared_ptr<SendStream>& stream) {
  MutexLock lock(&mu_);
  streams_.emplace(stream.get(), stream);
}

void SendContext::RemoveStream(const SendStream* stream) {
  std::shared_ptr<SendStream> removed;
  MutexLock lock(&mu_);
  const auto found = streams_.find(stream);
  removed = std::move(found->second);  // Freed after the lock.
  streams_.erase(found);
}

std::vector<std::shared_ptr<SendStream>> SendContext::streams() {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<SendStream>> streams;
  for (const auto& [key, stream] : streams_) streams.push_back(stream);
  return streams;
}

}  // namespace tutti
