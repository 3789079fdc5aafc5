#include "remote/mpi/mpi_requests.h"

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
  std::vector<std::pair<OnEnd, MPI_Status>> ended;
  for (int i = 0; i < num_ended; ++i) {
    ended.emplace_back(std::move(on_end_[indices_[i]]), statuses_[i]);
  }
  size_t num_left = 0;
  for (size_t i = 0; i < count; ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (num_left != i) {
      requests_[num_left] = requests_[i];
      on_end_[num_left] = std::move(on_end_[i]);
    }
    ++num_left;
  }
  requests_.resize(num_left);
  on_end_.resize(num_left);
  for (auto& [on_end, status] : ended) std::move(on_end)(status);
  return true;
}

}  // namespace tutti
