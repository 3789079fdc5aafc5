#ifndef TUTTI_SCHEDULE_ENGINE_OP_WAITS_H_
#define TUTTI_SCHEDULE_ENGINE_OP_WAITS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "schedule/compiled_schedule.h"

namespace tutti {

// By op of a run: completions that the op still waits for. Any thread may count
// a completion, but Reset() comes before all of them.
class OpWaits {
 public:
  // `ops` outlive this object.
  explicit OpWaits(const std::vector<CompiledSchedule::Op>& ops)
      : ops_(ops),
        many_(ops.size() > kInlineOps
                  ? std::make_unique<std::atomic<uint8_t>[]>(ops.size())
                  : nullptr),
        waits_(many_ == nullptr ? few_.data() : many_.get()) {}
  OpWaits(const OpWaits&) = delete;
  OpWaits& operator=(const OpWaits&) = delete;

  // Size of the memory outside the object.
  static size_t NumOuterBytes(size_t num_ops) {
    return num_ops > kInlineOps ? num_ops : 0;
  }

  void Reset() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      waits_[i].store(ops_[i].num_waits, std::memory_order_relaxed);
    }
  }

  // Counts one completion. Returns true if the op is ready.
  bool CountDown(int32_t index) {
    const auto i = static_cast<size_t>(index);
    return ops_[i].num_waits == 1 ||
           waits_[i].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  // Most schedules of small groups fit.
  static constexpr size_t kInlineOps = 64;

  const std::vector<CompiledSchedule::Op>& ops_;
  std::array<std::atomic<uint8_t>, kInlineOps> few_;
  const std::unique_ptr<std::atomic<uint8_t>[]> many_;
  std::atomic<uint8_t>* const waits_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_OP_WAITS_H_
