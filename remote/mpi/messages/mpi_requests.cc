#include "remote/mpi/messages/mpi_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status MpiStatus(int code, const char* what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::InternalError(
      absl::StrCat("MPI: ", what, ": ",
                   absl::string_view(text, static_cast<size_t>(length))));
}

void MpiRequests::Add(MPI_Request request, OnEnd on_end) {
  requests_.push_back(request);
  on_end_.push_back(std::move(on_end));
}

bool MpiRequests::Poll() {
  if (requests_.empty()) return false;
  const size_t count = requests_.size();
  indices_.resize(count);
  statuses_.resize(count);
  int num_ended = 0;
  MPI_Testsome(static_cast<int>(count), requests_.data(), &num_ended,
               indices_.data(), statuses_.data());
  if (num_ended == 0 || num_ended == MPI_UNDEFINED) return false;
  std::vector<std::pair<OnEnd, MPI_Status>> ended = std::exchange(ended_, {});
  for (int i = 0; i < num_ended; ++i) {
    ended.emplace_back(std::move(on_end_[indices_[i]]), statuses_[i]);
  }
  for (size_t i = 0; i < requests_.size();) {
    if (requests_[i] != MPI_REQUEST_NULL) {
      ++i;
      continue;
    }
    requests_[i] = requests_.back();
    on_end_[i] = std::move(on_end_.back());
    requests_.pop_back();
    on_end_.pop_back();
  }
  for (auto& [on_end, status] : ended) std::move(on_end)(status);
  ended.clear();
  ended_ = std::move(ended);
  return true;
}

}  // namespace tutti
