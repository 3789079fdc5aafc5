#include "schedule/simulate/ports.h"

#include <algorithm>
#include <cstddef>

namespace tutti {

void Ports::PlaceByPort() {
  size_t begin = 0;
  for (const size_t index : in_use_) {
    ports_[index].end = begin;
    begin += ports_[index].num_waiting;
  }
  by_port_.resize(waiting_.size());
  for (const Waiting& waiting : waiting_) {
    by_port_[ports_[waiting.port].end++] = waiting.passage;
  }
}

void Ports::Pass() {
  PlaceByPort();
  const auto starts_before = [](const Passage& a, const Passage& b) {
    return a.start < b.start;
  };
  auto next = by_port_.begin();
  for (const size_t index : in_use_) {
    Port& port = ports_[index];
    const auto end = next + static_cast<std::ptrdiff_t>(port.num_waiting);
    std::sort(next, end, starts_before);
    for (; next != end; ++next) {
      port.free = std::max(port.free, next->start) + next->duration;
    }
    port.num_waiting = 0;
  }
  in_use_.clear();
  waiting_.clear();
}

}  // namespace tutti
