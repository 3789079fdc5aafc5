#include "schedule/simulate/host_work.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tutti {
namespace {

// Occupies a processor from `ready` on and returns the end of its work. Chooses
// the free processor that was idle for the shortest time, so that others can
// still do earlier work.
double Occupy(double ready, double duration, size_t processors,
              std::multiset<double>* free) {
  auto chosen = free->upper_bound(ready);
  if (chosen == free->begin() && free->size() < processors) {
    const double end = ready + duration;  // First work of a processor.
    free->insert(end);
    return end;
  }
  if (chosen != free->begin()) --chosen;
  auto processor = free->extract(chosen);
  const double end = std::max(ready, processor.value()) + duration;
  processor.value() = end;
  free->insert(std::move(processor));
  return end;
}

}  // namespace

HostWork::HostWork(const Host& host, int num_tasks, bool is_inline)
    : host_(host),
      is_inline_(is_inline),
      free_(NumHosts(host, num_tasks)),
      thread_free_(is_inline ? num_tasks : 0) {}

void HostWork::Add(int task, double ready, double duration) {
  const int host = host_.tasks == 0 ? 0 : task / host_.tasks;
  pieces_.push_back({host, task, ready, pieces_.size(), duration});
}

absl::Span<const double> HostWork::Do() {
  const auto is_before = [](const Piece& a, const Piece& b) {
    return std::tie(a.host, a.ready, a.index) <
           std::tie(b.host, b.ready, b.index);
  };
  if (!std::is_sorted(pieces_.begin(), pieces_.end(), is_before)) {
    std::sort(pieces_.begin(), pieces_.end(), is_before);
  }
  ends_.resize(pieces_.size());
  for (const Piece& piece : pieces_) ends_[piece.index] = DoOne(piece);
  pieces_.clear();
  return ends_;
}

double HostWork::DoOne(const Piece& piece) {
  double ready = piece.ready;
  if (is_inline_) ready = std::max(ready, thread_free_[piece.task]);
  const double end =
      Occupy(ready, piece.duration, static_cast<size_t>(host_.processors),
             &free_[piece.host]);
  if (is_inline_) thread_free_[piece.task] = end;
  busy_ += piece.duration;
  return end;
}

}  // namespace tutti
