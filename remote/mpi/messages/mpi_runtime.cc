#include <memory>
#include <utility>

#include "remote/mpi/messages/mpi_engine.h"
#include "tutti/mpi_transport.h"

namespace tutti {

MpiRuntime::MpiRuntime(Options options)
    : engine_(std::make_unique<MpiEngine>(std::move(options))) {}

MpiRuntime::~MpiRuntime() = default;

absl::Status MpiRuntime::Start() { return engine_->Start(); }

void MpiRuntime::Shutdown() { engine_->Shutdown(); }

absl::StatusOr<int> MpiRuntime::size() const { return engine_->size(); }

absl::StatusOr<int> MpiRuntime::rank() const { return engine_->rank(); }

absl::StatusOr<int> MpiRuntime::local_rank() const {
  return engine_->local_rank();
}

absl::StatusOr<int> MpiRuntime::local_size() const {
  return engine_->local_size();
}

absl::StatusOr<int> MpiRuntime::local_processors() const {
  return engine_->local_processors();
}

absl::StatusOr<std::vector<std::string>> MpiRuntime::hosts() const {
  return engine_->hosts();
}

bool MpiRuntime::is_cuda_aware() const { return engine_->is_cuda_aware(); }

absl::StatusOr<std::string> MpiRuntime::Describe() const {
  return engine_->Describe();
}

}  // namespace tutti
