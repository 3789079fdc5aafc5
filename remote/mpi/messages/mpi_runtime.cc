#include <memory>
#include <utility>

#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "tutti/mpi_transport.h"

namespace tutti {
namespace {

template <typename T>
absl::StatusOr<T> FieldOf(const MpiEngine& engine, T MpiWorld::* field) {
  ASSIGN_OR_RETURN(const MpiWorld* const world, engine.world());
  return world->*field;
}

}  // namespace

MpiRuntime::MpiRuntime(Options options)
    : engine_(std::make_unique<MpiEngine>(std::move(options))) {}

MpiRuntime::~MpiRuntime() = default;

absl::Status MpiRuntime::Start() { return engine_->Start(); }

void MpiRuntime::Shutdown() { engine_->Shutdown(); }

absl::StatusOr<int> MpiRuntime::size() const {
  return FieldOf(*engine_, &MpiWorld::size);
}

absl::StatusOr<int> MpiRuntime::rank() const {
  return FieldOf(*engine_, &MpiWorld::rank);
}

absl::StatusOr<int> MpiRuntime::local_rank() const {
  return FieldOf(*engine_, &MpiWorld::local_rank);
}

absl::StatusOr<int> MpiRuntime::local_size() const {
  return FieldOf(*engine_, &MpiWorld::local_size);
}

absl::StatusOr<int> MpiRuntime::local_processors() const {
  return FieldOf(*engine_, &MpiWorld::local_processors);
}

absl::StatusOr<std::vector<std::string>> MpiRuntime::hosts() const {
  return FieldOf(*engine_, &MpiWorld::hosts);
}

bool MpiRuntime::is_cuda_aware() const { return engine_->is_cuda_aware(); }

absl::StatusOr<std::string> MpiRuntime::Describe() const {
  ASSIGN_OR_RETURN(const MpiWorld* const world, engine_->world());
  return world->Describe();
}

}  // namespace tutti
