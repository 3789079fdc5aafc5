#ifndef TUTTI_IMPLEMENTATIONS_PARTS_LANES_IN_TURN_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_LANES_IN_TURN_H_

#include <cstddef>
#include <vector>

#include "tutti/schedule.h"

namespace tutti {

// Deals steps out to a few lanes in turn. As many steps run at once as there
// are lanes, and never more.
class LanesInTurn {
 public:
  // Adds up to `most` lanes to the builder, which outlives this.
  LanesInTurn(size_t most, ScheduleBuilder& builder)
      : most_(most), builder_(builder) {}

  // Returns the lane of the next step: new lanes up to `most`, then the first
  // lane again.
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

// Transfers that a root has in progress at once, if all others send to it or it
// sends to all.
inline constexpr size_t kRootTransfersAtOnce = 8;

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_LANES_IN_TURN_H_
