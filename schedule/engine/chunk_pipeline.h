#ifndef TUTTI_SCHEDULE_ENGINE_CHUNK_PIPELINE_H_
#define TUTTI_SCHEDULE_ENGINE_CHUNK_PIPELINE_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// Tracks the stages of the chunks of a HierarchicalRun. Each chunk goes through
// three stages: it is reduced within the task, meets the chunks of other tasks,
// and is spread within the task. At any time at most one chunk is reduced and
// at most one meets others, in order. While a chunk meets others, the next
// chunk is reduced and earlier chunks are spread.
//
// Thread-safe. Each stage that begins must end by the call of its name. After
// each call the caller calls Take(), which alone starts stages.
class ChunkPipeline {
 public:
  // `cancellation` is the execution's. Once it is set, no stage begins.
  ChunkPipeline(int64_t num_chunks, const Cancellation& cancellation)
      : num_chunks_(num_chunks), cancellation_(cancellation) {}

  // Stages that begin now.
  struct Next {
    std::optional<int64_t> to_reduce;  // Index of the chunk.
    std::optional<int64_t> to_meet;

    // True once, when nothing is in progress and no stage will begin.
    bool ends = false;
  };

  // After the end, reads only this object: the execution may be gone.
  Next Take() ABSL_LOCKS_EXCLUDED(mu_);

  void EndReduce() ABSL_LOCKS_EXCLUDED(mu_);
  void EndMeet(bool begins_spread) ABSL_LOCKS_EXCLUDED(mu_);
  void EndSpread() ABSL_LOCKS_EXCLUDED(mu_);

  // Keeps the pipeline from ending until EndOther(). Returns false if it has
  // ended.
  bool BeginOther() ABSL_LOCKS_EXCLUDED(mu_);
  void EndOther() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const int64_t num_chunks_;
  const Cancellation& cancellation_;
  Mutex mu_;
  int64_t num_reduced_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t num_met_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_reducing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_meeting_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  int num_under_way_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_CHUNK_PIPELINE_H_
