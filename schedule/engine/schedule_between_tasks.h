#ifndef TUTTI_SCHEDULE_ENGINE_SCHEDULE_BETWEEN_TASKS_H_
#define TUTTI_SCHEDULE_ENGINE_SCHEDULE_BETWEEN_TASKS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/chunk_map.h"
#include "schedule/engine/inter_task_level.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Finds the registered schedule `name` for the level between tasks. Errors:
// NOT_FOUND if it is not linked; INVALID_ARGUMENT if it is no schedule or does
// not all-reduce; errors of CheckFitsAsPart() and CheckParts().
absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindInterTaskLevel(
    absl::string_view name);

// Runs a registered schedule as the level between tasks. The schedule gets the
// subdivisions and the list of ranks of the whole.
class ScheduleBetweenTasks final : public InterTaskLevel {
 public:
  // All chunks but the last have the most elements that fit in `chunk_bytes`,
  // at least one.
  ScheduleBetweenTasks(std::string implementation, int64_t chunk_bytes)
      : name_(std::move(implementation)), chunk_bytes_(chunk_bytes) {}

  absl::Status Check(const CollectiveContext& /*context*/) const override {
    return absl::OkStatus();
  }

  // Errors: errors of FindInterTaskLevel(), and of the implementation's
  // InitializeCollectiveParams() and InitializeCollectiveContext().
  absl::Status Prepare(const CollectiveContext& first,
                       const Tensor& input) override;

  int64_t num_chunks() const override {
    return (num_elements_ + chunk_elements_ - 1) / chunk_elements_;
  }
  Range ChunkAt(int64_t index) const override;
  void Run(int64_t index, CollectiveContext& context,
           StatusCallback done) const override;

 private:
  // A reduction of chunks of one length.
  struct Reduction {
    CollectiveParams params;
    std::unique_ptr<CollectiveImplementationInterface> implementation;
  };

  absl::Status MakeReductions(const CollectiveParams& whole);
  absl::StatusOr<Reduction> MakeReduction(const CollectiveParams& whole,
                                          int64_t num_elements) const;

  const std::string name_;
  const int64_t chunk_bytes_;

  // Fixed by Prepare().
  int64_t num_elements_ = 0;
  int64_t chunk_elements_ = 1;
  Reduction whole_;  // For chunks of chunk_elements_.
  Reduction rest_;   // For the last chunk, if it is shorter.
};

// Base of factories whose implementation runs a registered schedule between
// tasks. It takes the subdivisions and the list of ranks that the schedule
// takes.
class HybridFactory : public CollectiveFactory {
 public:
  // `traits` without these two.
  HybridFactory(ImplementationTraits traits, std::string between,
                int64_t chunk_bytes)
      : CollectiveFactory(std::move(traits)),
        between_(std::move(between)),
        chunk_bytes_(chunk_bytes) {}

  const ImplementationTraits& traits() const override;

 protected:
  const std::string& between() const { return between_; }
  int64_t chunk_bytes() const { return chunk_bytes_; }
  std::unique_ptr<InterTaskLevel> MakeBetween() const;

 private:
  const std::string between_;
  const int64_t chunk_bytes_;
  mutable std::once_flag once_;
  mutable ImplementationTraits traits_;  // Set once `between_` is registered.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCHEDULE_BETWEEN_TASKS_H_
