#ifndef TUTTI_IMPLEMENTATIONS_PARTS_LANES_IN_TURN_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_LANES_IN_TURN_H_

#include <cstddef>
#include <vector>

#include "tutti/schedule.h"

namespace tutti {

// Deals steps out to a few lanes, so that some of them run at once, but never
// more than there are lanes.
class LanesInTurn {
 public:
  // Adds up to `most` lanes to the builder, which outlives this.
  LanesInTurn(size_t most, ScheduleBuilder& builder)
      : most_(most), builder_(builder) {}

  // The lane of the next step: a new one as long as there may be more, then the
  // first one again.
  ScheduleBuilder::LaneBuilder& Next() {
    const size_t turn = num_turns_++ % most_;
    if (turn == lanes_.size()) lanes_.push_back(builder_.AddLane());
    return lanes_[turn];
  }

 private:
  const size_t most_;
  ScheduleBuilder& builder_;
  std::vector<ScheduleBuilder::LaneBuilder> lanes_;
  size_t num_turns_ = 0;
};

// Transfers that a root, to or from which all others send, has under way.
inline constexpr size_t kRootTransfersAtOnce = 8;

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_LANES_IN_TURN_H_
