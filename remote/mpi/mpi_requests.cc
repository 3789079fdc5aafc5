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
  // The last ones take their places, from the last on.
  std::vector<OnEnd> ended = std::exchange(ended_, {});
  for (int i = num_ended - 1; i >= 0; --i) {
    const auto index = static_cast<size_t>(indices_[i]);
    ended.push_back(std::move(on_end_[index]));
    if (index + 1 < requests_.size()) {
      requests_[index] = requests_.back();
      on_end_[index] = std::move(on_end_.back());
    }
    requests_.pop_back();
    on_end_.pop_back();
  }
  for (int i = 0; i < num_ended; ++i) {
    std::move(ended[num_ended - 1 - i])(statuses_[i]);
  }
  ended.clear();
  ended_ = std::move(ended);
  return true;
}

}  // namespace tutti
