#ifndef TUTTI_SCHEDULE_ENGINE_READY_OPS_H_
#define TUTTI_SCHEDULE_ENGINE_READY_OPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

// Ops of any run that are ready, on the thread that found them ready. The
// outermost RunAll() of a thread runs them all, so that a chain of ops does not
// deepen the stack. A run has RunOp(int32_t op).
template <typename Run>
class ReadyOps {
 public:
  static void Add(Run* run, int32_t op) {
    OfThisThread().ops_.push_back({run, op});
  }

  // Runs all ops, and the ops that they add, unless a caller on this thread
  // already does.
  static void RunAll() {
    ReadyOps& ready = OfThisThread();
    if (ready.is_running_) return;
    ready.is_running_ = true;
    for (size_t i = 0; i < ready.ops_.size(); ++i) {
      const Entry entry = ready.ops_[i];
      entry.run->RunOp(entry.op);
      if (i >= kMostDone) i = ready.DropDone(i);
    }
    ready.ops_.clear();
    ready.is_running_ = false;
  }

 private:
  struct Entry {
    Run* run;
    int32_t op;
  };
  static constexpr size_t kMostDone = 4096;

  static ReadyOps& OfThisThread() {
    static thread_local ReadyOps ready;
    return ready;
  }

  // Removes entries 0 to `last`. Returns the index before the next entry.
  size_t DropDone(size_t last) {
    ops_.erase(ops_.begin(), ops_.begin() + static_cast<ptrdiff_t>(last) + 1);
    return static_cast<size_t>(-1);
  }

  std::vector<Entry> ops_;
  bool is_running_ = false;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_READY_OPS_H_
