#ifndef TUTTI_SCHEDULE_BETWEEN_TASKS_H_
#define TUTTI_SCHEDULE_BETWEEN_TASKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective_context.h"
#include "framework/collective_implementation.h"
#include "framework/params.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"
#include "schedule/chunk_map.h"

namespace tutti {

// These elements as a vector that shares the buffer. REQUIRES: the tensor has
// them.
Tensor PartOf(const Tensor& tensor, Range elements);

// The stage of an all-reduce that goes between processes: a registered schedule
// among the first members of all tasks (first_members.h), chunk by chunk,
// without the final op. Serves all executions of an instance. Thread-safe.
class ReductionBetweenTasks {
 public:
  // All but the last chunk have as many elements as fit in `chunk_bytes`, at
  // least one. Errors: NOT_FOUND if the implementation is not linked;
  // INVALID_ARGUMENT if it is no schedule, or does not all-reduce; those of its
  // InitializeCollectiveParams(). REQUIRES: as AmongFirstMembers().
  static absl::StatusOr<std::unique_ptr<const ReductionBetweenTasks>> Create(
      const CollectiveParams& whole, const std::string& implementation,
      int64_t chunk_bytes);

  int64_t num_chunks() const {
    return (num_elements_ + chunk_elements_ - 1) / chunk_elements_;
  }
  Range ChunkAt(int64_t index) const;

  // Plans what chunks run whose inputs and outputs share memory as `input` and
  // `output` do; of `member` executor and device count. Others are planned when
  // they first run. Errors: as InitializeCollectiveContext() of the
  // implementation.
  absl::Status Plan(const CollectiveContext& member, const Tensor& input,
                    const Tensor& output) const;

  // Reduces chunk `index`. `context` has the chunk's input and output and what
  // else it has in the whole's execution; the rest is set here. It lives until
  // `done` runs, as for CollectiveImplementationInterface::Run(). REQUIRES: the
  // chunk before has ended.
  void Run(int64_t index, CollectiveContext& context,
           StatusCallback done) const;

 private:
  // Of chunks of one length.
  struct Reduction {
    CollectiveParams params;
    std::unique_ptr<CollectiveImplementationInterface> implementation;
  };

  ReductionBetweenTasks() = default;
  static absl::StatusOr<Reduction> MakeReduction(const CollectiveParams& whole,
                                                 const std::string& name,
                                                 int64_t num_elements);

  int64_t num_elements_ = 0;
  int64_t chunk_elements_ = 0;
  Reduction whole_;  // Of chunks of that length.
  Reduction rest_;   // Of the last one, where it is shorter.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_BETWEEN_TASKS_H_
