#include "framework/run_in_turn.h"

#include <deque>
#include <utility>

namespace tutti {

void RunInTurn(Work work) {
  static thread_local std::deque<Work>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(std::move(work));
    return;
  }
  std::deque<Work> mine;
  waiting = &mine;
  std::move(work)();
  work = nullptr;
  while (!mine.empty()) {
    Work next = std::move(mine.front());
    mine.pop_front();
    std::move(next)();
  }
  waiting = nullptr;
}

}  // namespace tutti
