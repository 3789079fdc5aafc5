#ifndef TUTTI_SCHEDULE_ENGINE_CHUNK_PIPELINE_H_
#define TUTTI_SCHEDULE_ENGINE_CHUNK_PIPELINE_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// Where the chunks of a HierarchicalRun are. Each goes through three stages: it
// is reduced within the task, meets those of the other tasks, and is spread
// within the task. One at a time is reduced, one meets others, in order; while
// one does, the next is reduced, and those before are spread.
//
// Thread-safe. What is begun must end, by the call of its name; after each call
// somebody calls Take(), from which all starts.
class ChunkPipeline {
 public:
  // Once `cancellation`, which is the execution's, is set, nothing begins.
  ChunkPipeline(int64_t num_chunks, const Cancellation& cancellation)
      : num_chunks_(num_chunks), cancellation_(cancellation) {}

  // What begins now.
  struct Next {
    std::optional<int64_t> to_reduce;  // That chunk.
    std::optional<int64_t> to_meet;

    // Nothing is under way any more, and nothing will be. True once.
    bool ends = false;
  };

  // Once it has ended, looks at nothing but itself: the execution may be gone.
  Next Take() ABSL_LOCKS_EXCLUDED(mu_);

  void EndReduce() ABSL_LOCKS_EXCLUDED(mu_);
  void EndMeet(bool begins_spread) ABSL_LOCKS_EXCLUDED(mu_);
  void EndSpread() ABSL_LOCKS_EXCLUDED(mu_);

  // Something else, during which the pipeline does not end. False if it has.
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
