#include "framework/base/number_map.h"

#include <iterator>

namespace tutti {

void NumberSet::Insert(uint64_t number) {
  if (Contains(number)) return;
  auto next = runs_.upper_bound(number);
  auto run = next == runs_.begin() ? runs_.end() : std::prev(next);
  if (run != runs_.end() && run->second + 1 == number) {
    run->second = number;
  } else {
    run = runs_.emplace_hint(next, number, number);
  }
  if (next != runs_.end() && next->first == number + 1) {
    run->second = next->second;
    runs_.erase(next);
  }
}

bool NumberSet::Contains(uint64_t number) const {
  const auto next = runs_.upper_bound(number);
  return next != runs_.begin() && number <= std::prev(next)->second;
}

uint64_t NumberSet::FirstMissing(uint64_t from) const {
  return Contains(from) ? std::prev(runs_.upper_bound(from))->second + 1 : from;
}

}  // namespace tutti
