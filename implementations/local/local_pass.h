#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_PASS_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_PASS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/block_cache.h"
#include "framework/base/mutex.h"
#include "framework/executor/local_meeting.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes the late outputs of all members that have a place for one. If every
// member has such a place, they all share one output, on the device of the
// first member. Else each of them gets a separate output. An output that all
// members shared in the last execution is used again. Errors: errors of
// Device::Allocate().
absl::Status MakeLateOutputs(absl::Span<const Attendee> members);

// Returns the tensor of the member's result. REQUIRES: MakeLateOutputs() was
// called.
inline const Tensor& OutputOf(const Attendee& member) {
  return member.context->result();
}

// Returns true if all members share one output. REQUIRES: MakeLateOutputs() was
// called.
bool ShareOutput(absl::Span<const Attendee> members);

// The bytes [begin, end).
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Runs one execution of members that are all in this process and have all
// arrived. Reads their inputs and writes their outputs in place. Sends no
// messages and touches no byte more often than needed.
//
// A pass goes along a line of bytes, cut into slices. Slices of a large pass
// run in parallel on the work queue; each worker takes the next slice. A small
// pass runs on the thread of the last member.
class LocalPass {
 public:
  // `members` stay valid until the pass has ended. `touched_bytes` counts bytes
  // of their tensors; by default all bytes.
  explicit LocalPass(absl::Span<const Attendee> members,
                     std::optional<int64_t> touched_bytes = std::nullopt);
  virtual ~LocalPass() = default;
  LocalPass(const LocalPass&) = delete;
  LocalPass& operator=(const LocalPass&) = delete;

  // Returns true if one thread ends sooner than the work queue wakes another.
  bool is_small() const;

  // Runs the pass on this thread.
  absl::Status RunHere() const;

  // Runs the pass on the work queue, then `done`, possibly on this thread. The
  // queue may keep the pass longer; the destructor of the pass does not touch
  // members.
  static void Schedule(const std::shared_ptr<LocalPass>& pass,
                       StatusCallback done);

 protected:
  // Length of the line.
  virtual int64_t num_bytes() const = 0;

  // Runs one slice of the pass. Slices begin at multiples of a cache line and
  // may run at the same time.
  virtual absl::Status Run(ByteRange slice) const = 0;

  int group_size() const { return static_cast<int>(members_.size()); }
  const CollectiveParams& params(int rank) const {
    return *members_[static_cast<size_t>(rank)].context->params;
  }
  const CollInstanceParams& instance() const { return *params(0).instance; }
  int64_t element_bytes() const;

  // Null if the member has none. If all members share one output, output() is
  // null at all ranks but 0.
  const uint8_t* input(int rank) const;
  uint8_t* output(int rank) const;
  bool in_place(int rank) const { return input(rank) == output(rank); }

  // Null if the member has one tensor for input and one for output.
  const SegmentList* segments(int rank) const {
    return members_[static_cast<size_t>(rank)].context->segments.get();
  }

  // Returns true if writes bypass the caches: the data would not stay there, or
  // the members request it.
  bool streams() const { return streams_; }

 private:
  void Cut(int64_t line_bytes, int num_workers);
  static void RunSlices(const std::shared_ptr<LocalPass>& self);
  absl::Status RunUnlessCancelled(ByteRange slice) const;
  static void End(const std::shared_ptr<LocalPass>& self, absl::Status status);

  const absl::Span<const Attendee> members_;
  const bool one_output_;       // Shared by all members.
  const int64_t tensor_bytes_;  // Inputs and outputs.
  const int64_t touched_bytes_;
  const bool streams_;
  StatusCallback done_;

  // State of a pass on the work queue.
  int64_t line_bytes_ = 0;
  int64_t slice_bytes_ = 0;  // All but the last.
  int64_t num_slices_ = 0;
  std::atomic<int64_t> num_begun_{0};
  std::atomic<int64_t> num_left_{0};
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// Reports all members as launched: all have arrived, and none waits for
// another.
void LaunchTogether(absl::Span<const Attendee> members);

// An implementation that is a pass; `Pass` is constructed from the members.
template <class Pass>
class LocalImplementation : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    LocalMeeting& meeting = context.execution->Shared<LocalMeeting>();
    const auto members = meeting.Join(context, std::move(done));
    if (members.empty()) return;
    absl::Status status = MakeLateOutputs(members);
    if (!status.ok()) return meeting.Adjourn(std::move(status));
    const Pass pass(members);
    if (pass.is_small()) return meeting.Adjourn(pass.RunHere());
    LaunchTogether(members);
    LocalPass::Schedule(
        std::allocate_shared<Pass>(CachedAllocator<Pass>(), members),
        [&meeting](absl::Status ended) { meeting.Adjourn(std::move(ended)); });
  }
};

// Traits common to all passes: they need CPU devices in one process, cost less
// than implementations that send, and reduce in rank order if they reduce.
ImplementationTraits LocalTraits(std::string summary,
                                 std::vector<CollectiveType> collectives);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_LOCAL_PASS_H_
